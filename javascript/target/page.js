import { batch, nearprint } from "nearprint";

const client = nearprint({ url: process.env.NEARPRINT_URL, token: process.env.NEARPRINT_TOKEN });

const { data, error } = await client.POST("/v1/check-and-insert", {
  body: {
    id: "https://a.example/lamp",
    text: "The lamp on the second floor flickers when the lift starts, and nobody has found the " +
      "loose wire behind the panel.",
  },
});
if (error) throw new Error(`${error.code}: ${error.detail}`);
console.log(data.outcome);

const again = await client.POST("/v1/query", {
  body: {
    text: "The lamp on the second floor flickers when the lift starts, and nobody has found the " +
      "loose wire behind the panel!",
  },
});
console.log(again.data?.duplicate, again.data?.hits[0]?.documents[0]?.id);

const { error: refused } = await client.POST("/v1/query", { body: { text: "... !?" } });
console.log(refused?.code);
const lines = ["first", "second", "first"].map((word, n) => ({
  id: `page-${n}`,
  text: `${word} page: `.concat(Array.from({ length: 30 }, (_, at) => `${word}${at}`).join(" ")),
}));
for await (const reply of batch(client, "/v1/check-and-insert/batch", lines, { limit: 1 })) {
  console.log(reply.error ? reply.error.code : reply.outcome);
}
const response = await fetch(`${process.env.NEARPRINT_URL}/v1/query/batch`, {
  method: "POST",
  headers: { "Content-Type": "application/x-ndjson" },
  body: lines.map((line) => JSON.stringify({ text: line.text })).join("\n"),
});
for (const line of (await response.text()).trimEnd().split("\n")) {
  console.log(JSON.parse(line).hits[0].documents[0].id);
}
/** @type {import("nearprint").components["schemas"]["CheckAndInsertRequest"]} */
const document = { text: lines[0]?.text ?? "", on_duplicate: "insert", expires_in: 86_400 };
const stored = await client.POST("/v1/check-and-insert", { body: document });
console.log(stored.data?.outcome, stored.data?.stored);
