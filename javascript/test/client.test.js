// The client against the service at NEARPRINT_URL.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { batch, nearprint, NearprintError } from "nearprint";

const url = process.env["NEARPRINT_URL"] ?? "";
const client = nearprint({ url });

/** @param {number} n */
const words = (n) => Array.from({ length: 40 }, (_, at) => `word${n}x${at}`).join(" ");

/**
 * @template T
 * @param {AsyncIterable<T>} items
 */
async function collected(items) {
  const all = [];
  for await (const item of items) all.push(item);
  return all;
}

/**
 * A server that answers each request as the next of these functions says.
 *
 * @param {((request: import("node:http").IncomingMessage, body: string,
 *   response: import("node:http").ServerResponse) => void)[]} answers
 */
async function serving(...answers) {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    const answer = answers.shift();
    if (answer === undefined) throw new Error("one request too many");
    answer(request, body, response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return { server, url: `http://127.0.0.1:${address.port}` };
}

test("a near-duplicate is found, and its error is typed", async () => {
  const body = { id: "js-1", text: words(1) };
  const first = await client.POST("/v1/check-and-insert", { body });
  assert.equal(first.data?.outcome, "inserted");
  const again = await client.POST("/v1/check-and-insert", { body: { text: `${words(1)}!` } });
  assert.equal(again.data?.outcome, "duplicate");
  const refused = await client.POST("/v1/query", { body: { text: "... !?" } });
  assert.equal(refused.error?.code, "empty_document");
  assert.equal(refused.response.status, 422);
});

test("the names of a list have commas between them", async () => {
  await client.POST("/v1/insert", { body: { id: "js-2", text: words(2), metadata: { n: 2 } } });
  const { data } = await client.GET("/v1/documents", {
    params: { query: { prefix: "js-2", include: ["metadata", "sketch"] } },
  });
  assert.ok(typeof data === "object");
  assert.deepEqual(data.documents[0]?.metadata, { n: 2 });
  assert.equal(data.documents[0]?.sketch?.length, 312);
});

test("any id has a path, except those that fetch drops", async () => {
  const ids = ["a/b", "/", "?", "#", "100 %", "%2F", "a/../b", "...", "\u8336", "https://a/?b=c#d"];
  for (const id of ids) {
    await client.POST("/v1/insert", { body: { id, fingerprint: "00000000000000ff", namespace: "ids" } });
    const params = { path: { id }, query: { namespace: "ids" } };
    assert.equal((await client.GET("/v1/documents/{id}", { params })).data?.id, id);
    assert.equal((await client.DELETE("/v1/documents/{id}", { params })).data?.removed, 1, id);
  }
  for (const id of [".", ".."]) {
    await assert.rejects(client.GET("/v1/documents/{id}", { params: { path: { id } } }), TypeError);
  }
});

test("a batch goes in requests of 1,000 lines, and each line has its reply", async () => {
  async function* documents() {
    for (let n = 0; n < 2_500; n += 1) {
      yield n === 1_234 ? { id: n } : { id: n, fingerprint: n.toString(16).padStart(16, "0") };
    }
  }
  const replies = await collected(batch(client, "/v1/insert/batch", documents(), { namespace: "js" }));
  assert.equal(replies.length, 2_500);
  for (const [n, reply] of replies.entries()) {
    if (n === 1_234) {
      assert.equal(reply.error?.code, "document_missing");
      assert.equal(reply.error?.line, 235);
    } else {
      assert.equal(reply.error, undefined);
    }
  }
  const removed = await collected(
    batch(client, "/v1/delete/batch", [{ id: 7 }, { id: 1_234 }], { namespace: "js" }),
  );
  assert.deepEqual(removed.map((reply) => "removed" in reply && reply.removed), [1, 0]);
});

test("a request has at most 1 MiB", async () => {
  /** @type {number[]} */
  const lengths = [];
  /** @type {Parameters<typeof serving>[0]} */
  const answer = (request, body, response) => {
    lengths.push(Number(request.headers["content-length"]));
    response.setHeader("Content-Type", "application/x-ndjson");
    response.end("{}\n".repeat(body.split("\n").length - 1));
  };
  const here = await serving(answer, answer, answer);
  const text = "x".repeat(400_000);
  const documents = Array.from({ length: 5 }, (_, id) => ({ id, text }));
  const replies = await collected(batch(nearprint({ url: here.url }), "/v1/insert/batch", documents));
  here.server.close();
  assert.equal(replies.length, 5);
  assert.equal(lengths.length, 3);
  assert.ok(lengths.every((length) => length <= 1 << 20));
});

test("a batch that is refused as a whole throws", async () => {
  const wrong = batch(client, "/v1/query/batch", [{ text: words(3) }], { distance: 64 });
  await assert.rejects(collected(wrong), (error) => {
    assert.ok(error instanceof NearprintError);
    return error.problem.code === "distance_above_max";
  });
});

test("429 and 503 are tried again after the time in Retry-After, with token and body", async () => {
  /** @param {number} status @returns {Parameters<typeof serving>[0]} */
  const busy = (status) => (_request, _body, response) => {
    response.writeHead(status, { "Retry-After": "0" }).end();
  };
  /** @type {string[]} */
  const seen = [];
  const here = await serving(busy(503), busy(429), (request, body, response) => {
    seen.push(request.headers.authorization ?? "", body);
    response.setHeader("Content-Type", "application/json").end("{}");
  });
  const one = nearprint({ url: here.url, token: "secret" });
  const { response } = await one.POST("/v1/query", { body: { text: "a" } });
  assert.equal(response.status, 200);
  assert.deepEqual(seen, ["Bearer secret", '{"text":"a"}']);
  here.server.close();
  const always = await serving(busy(503), busy(503));
  const given = await nearprint({ url: always.url, retries: 1 }).GET("/v1/stats");
  assert.equal(given.response.status, 503);
  always.server.close();
});

test("what lasts, or may have been carried out, is not tried again", async () => {
  for (const code of ["follower", "outcome_unknown"]) {
    const here = await serving((_request, _body, response) => {
      response.writeHead(503, { "Retry-After": "0", "Content-Type": "application/problem+json" });
      response.end(JSON.stringify({ code, detail: "why" }));
    });
    const { error } = await nearprint({ url: here.url }).POST("/v1/insert", { body: { text: "a" } });
    assert.equal(error?.code, code);
    here.server.close();
  }
});

test("a body may be compressed", async () => {
  const response = await fetch(`${url}/v1/query`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Content-Encoding": "gzip" },
    body: gzipSync(JSON.stringify({ text: words(1) })),
  });
  assert.equal(response.status, 200);
});
