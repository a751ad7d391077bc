// Posts batches with the HTTP clients of Node: URL PREFIX LINES. Prints what went wrong.

import http from "node:http";

const [url, prefix, given] = process.argv.slice(2);
const count = Number(given);
const target = `${url}/v1/insert/batch`;
const headers = { "Content-Type": "application/x-ndjson" };
const pieceLines = 100;

function lines(way) {
  const line = (i) => JSON.stringify({ id: `${prefix}/${way}/${i}`, fingerprint: i }) + "\n";
  return Array.from({ length: count }, (_, i) => line(i));
}

function pieces(all) {
  const starts = Array.from({ length: Math.ceil(all.length / pieceLines) }, (_, i) => i);
  return starts.map((i) => all.slice(i * pieceLines, (i + 1) * pieceLines).join(""));
}

async function fetched(body, more = {}) {
  const reply = await fetch(target, { method: "POST", headers, body, ...more });
  return reply.text();
}

function streamed(all) {
  const rest = pieces(all).map((piece) => new TextEncoder().encode(piece));
  return new ReadableStream({
    pull(controller) {
      const piece = rest.shift();
      if (piece) controller.enqueue(piece);
      else controller.close();
    },
  });
}

function requested(all, more) {
  return new Promise((resolve, reject) => {
    const request = http.request(target, { method: "POST", headers: { ...headers, ...more } });
    request.on("error", reject);
    request.on("response", async (reply) => {
      let text = "";
      for await (const piece of reply.setEncoding("utf8")) text += piece;
      resolve(text);
    });
    const send = () => {
      for (const piece of pieces(all)) request.write(piece);
      request.end();
    };
    if (more.Expect) request.on("continue", send);
    else send();
  });
}

const ways = {
  fetch: (all) => fetched(all.join("")),
  "fetch-pieces": (all) => fetched(streamed(all), { duplex: "half" }),
  http: (all) => requested(all, {}),
  "http-expect": (all) => requested(all, { Expect: "100-continue" }),
};

for (const [way, post] of Object.entries(ways)) {
  try {
    const replies = (await post(lines(way))).split("\n").filter((line) => line);
    const stored = replies.filter((reply) => JSON.parse(reply).outcome === "inserted").length;
    if (stored === count) continue;
    console.log(`${way}: ${stored} of ${count} stored, ${replies.length} replies`);
  } catch (error) {
    console.log(`${way}: ${error} ${error.cause ?? ""}`);
  }
  process.exitCode = 1;
}
