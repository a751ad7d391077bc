// The client against the service at NEARPRINT_URL.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { setImmediate as turn } from "node:timers/promises";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { batch, nearprint, NearprintError } from "nearprint";
import { milliseconds } from "../exchange.js";
import { formsOf } from "../make-forms.js";

const url = process.env["NEARPRINT_URL"] ?? "";
const client = nearprint({ url });

/** @param {number} n */
const words = (n) => Array.from({ length: 40 }, (_, at) => `word${n}x${at}`).join(" ");

/** Replies of a service. */
const NOTHING = {
  fingerprint: "0".repeat(16),
  short: false,
  duplicate: false,
  hits: [],
  hit_count: 0,
  truncated: false,
};
const INSERTED = { fingerprint: "0".repeat(16), short: false, outcome: "inserted", stored: true };
const PRESENT = { ...NOTHING, outcome: "already_present", stored: true };

/**
 * @typedef {(request: import("node:http").IncomingMessage, body: string,
 *   response: import("node:http").ServerResponse) => void} Answer
 */

/**
 * An answer of JSON.
 *
 * @param {unknown} body
 * @param {number} [status]
 * @returns {Answer}
 */
const json = (body, status = 200) => (_request, _body, response) => {
  const type = status === 200 ? "application/json" : "application/problem+json";
  response.writeHead(status, { "Content-Type": type, "Retry-After": "0" });
  response.end(JSON.stringify(body));
};

/** @param {string} code @returns {Answer} */
const refusing = (code) => json({ code, status: 503, detail: "why" }, 503);

/** The connection is closed without a reply. @type {Answer} */
const lost = (request) => void request.socket.destroy();

/** Nothing comes. @type {Answer} */
const silent = () => {};

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
 * @param {Answer[]} answers
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
  /** @type {Answer} */
  const answer = (request, body, response) => {
    lengths.push(Number(request.headers["content-length"]));
    response.setHeader("Content-Type", "application/x-ndjson");
    response.end(`${JSON.stringify(INSERTED)}\n`.repeat(body.split("\n").length - 1));
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
  /** @param {number} status @returns {Answer} */
  const busy = (status) => (_request, _body, response) => {
    response.writeHead(status, { "Retry-After": "0" }).end();
  };
  /** @type {string[]} */
  const seen = [];
  const here = await serving(busy(503), busy(429), (request, body, response) => {
    seen.push(request.headers.authorization ?? "", body);
    response.setHeader("Content-Type", "application/json").end(JSON.stringify(NOTHING));
  });
  const one = nearprint({ url: here.url, token: "secret" });
  const { response } = await one.POST("/v1/query", { body: { text: "a" } });
  assert.equal(response.status, 200);
  assert.deepEqual(seen, ["Bearer secret", '{"text":"a"}']);
  here.server.close();
  const always = await serving((_request, _body, response) => {
    response.writeHead(503, { "Retry-After": "31" }).end("<html>");
  });
  const given = await nearprint({ url: always.url }).GET("/v1/stats");
  assert.equal(given.response.status, 503);
  assert.equal(given.error?.code, "overloaded");
  assert.match(given.error?.detail ?? "", RegExp(`^${always.url} is overloaded; it asks .* in 31 s`));
  always.server.close();
});

test("what lasts is not tried again, and what may have been carried out if it is the same write", async () => {
  const follower = await serving(refusing("follower"));
  const refused = await nearprint({ url: follower.url }).POST("/v1/insert", { body: { text: "a" } });
  assert.equal(refused.error?.code, "follower");
  follower.server.close();

  const unknown = await serving(refusing("outcome_unknown"), json(INSERTED));
  const { data } = await nearprint({ url: unknown.url }).POST("/v1/insert", { body: { text: "a" } });
  assert.equal(data?.outcome, "inserted");
  unknown.server.close();

  for (const answer of [refusing("outcome_unknown"), lost]) {
    const once = await serving(answer);
    const stored = nearprint({ url: once.url }).POST("/v1/insert/batch", {
      headers: { "Content-Type": "application/octet-stream" },
      body: "12345678",
      bodySerializer: (body) => body,
    });
    if (answer === lost) {
      await assert.rejects(stored, /unreachable: http:.* lost before it replied .* not repeated/);
    } else {
      assert.equal((await stored).error?.code, "outcome_unknown");
    }
    once.server.close();
  }
});

test("a document without an id is stored under one of it, so that a retry is one write", async () => {
  /** @type {string[]} */
  const bodies = [];
  /** @type {(answer: Answer) => Answer} */
  const seen = (answer) => (request, body, response) => {
    bodies.push(body);
    answer(request, body, response);
  };
  const here = await serving(seen(lost), seen(json(PRESENT)), seen(json(PRESENT)), seen(json(PRESENT)));
  const one = nearprint({ url: here.url });
  /** @param {object} body */
  const check = async (body) =>
    (await one.POST("/v1/check-and-insert", { body })).data?.duplicate;
  // The document itself may have been stored by the attempt whose reply was lost.
  assert.equal(await check({ text: "a", metadata: { n: 1.0 } }), false);
  // Now a copy of it was.
  assert.equal(await check({ fingerprint: "0".repeat(16), id: null }), true);
  assert.equal(await check({ text: "a", id: "mine" }), false);
  assert.deepEqual(bodies, [
    '{"id":{"from":"text-hash"},"text":"a","metadata":{"n":1}}',
    '{"id":{"from":"text-hash"},"text":"a","metadata":{"n":1}}',
    '{"fingerprint":"0000000000000000","id":{"from":"fingerprint"}}',
    '{"text":"a","id":"mine"}',
  ]);
  here.server.close();
});

test("a request that middleware makes anew keeps the rules", async () => {
  const here = await serving(lost);
  const one = nearprint({ url: `${here.url}/below` });
  one.use({ onRequest: ({ request }) => new Request(request) });
  const stored = one.POST("/v1/insert/batch", {
    headers: { "Content-Type": "application/octet-stream" },
    body: "12345678",
    bodySerializer: (body) => body,
  });
  await assert.rejects(stored, /it was not repeated/);
  here.server.close();
});

test("two copies of a text are one document, alone and in a batch", async () => {
  const query = { namespace: "copies" };
  const body = { text: words(9), ...query };
  for (const duplicate of [false, true]) {
    const { data } = await client.POST("/v1/check-and-insert", { body });
    assert.equal(data?.duplicate, duplicate);
  }
  const texts = [{ text: words(9) }, { text: words(10) }];
  const replies = await collected(batch(client, "/v1/check-and-insert/batch", texts, query));
  assert.deepEqual(replies.map((reply) => "duplicate" in reply && reply.duplicate), [true, false]);
});

test("of a batch that breaks off, only what had no reply is sent again", async () => {
  /** @type {string[]} */
  const bodies = [];
  const type = { "Content-Type": "application/x-ndjson" };
  const here = await serving(
    (_request, body, response) => {
      bodies.push(body);
      response.writeHead(200, { ...type, "Content-Length": "1000" });
      response.write(`${JSON.stringify(PRESENT)}\n${JSON.stringify(PRESENT)}`, () => response.destroy());
    },
    (_request, body, response) => {
      bodies.push(body);
      const error = { code: "empty_document", status: 422, detail: "No letter.", line: 1 };
      response.writeHead(200, type).end(`{"error":${JSON.stringify(error)}}\n`);
    },
  );
  const documents = [{ text: "a" }, { text: "!" }];
  const one = nearprint({ url: here.url });
  const replies = await collected(batch(one, "/v1/check-and-insert/batch", documents));
  here.server.close();
  assert.deepEqual(replies.map((reply) => "duplicate" in reply && reply.duplicate), [true, false]);
  assert.equal(replies[1]?.error?.line, 2);
  assert.deepEqual(bodies.map((body) => body.trim().split("\n").length), [2, 1]);
});

test("every call has a deadline, and perhaps one of its own", async () => {
  const here = await serving(silent, silent, silent);
  const why = RegExp(`^NearprintError: unreachable: ${here.url} cannot be reached: no reply in time`);
  const hasty = nearprint({ url: here.url, timeout: 0.2 });
  await assert.rejects(hasty.GET("/v1/stats"), why);
  const calm = nearprint({ url: here.url, timeout: 600 });
  await assert.rejects(calm.GET("/v1/stats", { timeout: 0.2 }), why);
  const lines = batch(calm, "/v1/query/batch", [{ text: "a" }], {}, { timeout: 0.2 });
  await assert.rejects(collected(lines), why);
  here.server.close();
  here.server.closeAllConnections();
  for (const timeout of [0, -1, Number.NaN, Infinity, 1e9, "1"]) {
    assert.throws(() => nearprint({ timeout: /** @type {number} */ (timeout) }), /timeout must be/);
    await assert.rejects(calm.GET("/v1/stats", { timeout }), /timeout must be/);
  }
});

test("a call that is aborted ends, also while it waits for the next attempt", async () => {
  const here = await serving((_request, _body, response) => {
    response.writeHead(503, { "Retry-After": "500" }).end();
    setTimeout(() => stop.abort(new Error("enough")), 0);
  });
  const stop = new AbortController();
  const call = nearprint({ url: here.url, timeout: 600 }).GET("/v1/stats", { signal: stop.signal });
  await assert.rejects(call, /^Error: enough$/);
  here.server.close();
});

test("a service that is away is reported at once, by its address", async () => {
  const here = await serving();
  here.server.close();
  const away = nearprint({ url: `${here.url}/below/`, timeout: 600 });
  await assert.rejects(away.GET("/v1/stats"), (error) => {
    assert.ok(error instanceof NearprintError);
    assert.equal(error.problem.code, "unreachable");
    assert.ok(error.problem.detail.startsWith(`${here.url}/below cannot be reached: connect ECONNREFUSED`));
    return true;
  });
});

test("a reply that nobody asked for is nobody's verdict", async (context) => {
  // The server is a process of its own, so that its reply comes while this one computes.
  const program = `
    const body = (duplicate) => JSON.stringify({ ...${JSON.stringify(NOTHING)}, duplicate });
    const reply = (text) => "HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n" +
      "Content-Length: " + text.length + "\\r\\n\\r\\n" + text;
    const server = require("net").createServer((socket) => {
      socket.setNoDelay(true);
      socket.on("error", () => {});
      socket.on("data", () => {
        socket.write(reply(body(false)));
        setTimeout(() => socket.write(reply(body(true))), 50);
      });
    });
    server.listen(0, "127.0.0.1", () => console.log(server.address().port));`;
  const server = spawn(process.execPath, ["-e", program], { stdio: ["ignore", "pipe", "inherit"] });
  context.after(() => server.kill());
  const [port] = await once(server.stdout, "data");
  const one = nearprint({ url: `http://127.0.0.1:${String(port).trim()}` });
  for (let call = 0; call < 5; call += 1) {
    const { data } = await one.POST("/v1/query", { body: { text: "a" } });
    assert.equal(data?.duplicate, false);
    // The connection is idle, and the event loop has no turn in which fetch would see the reply.
    await turn();
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
  }
});

test("an address or a token that makes no sense is refused, and a token is not shown", () => {
  for (const wrong of ["127.0.0.1:7878", "ftp://a", "http://a:b@c", "http://a/?b", "http://a/#b"]) {
    assert.throws(() => nearprint({ url: wrong }), /^TypeError: url must/);
  }
  for (const token of ["", "a b", "geheim\n", "gehe\u00efm"]) {
    assert.throws(() => nearprint({ token }), /^TypeError: token must consist of visible ASCII/);
  }
});

test("a Retry-After is a number or a date", () => {
  assert.equal(milliseconds("3"), 3_000);
  assert.equal(milliseconds("Wed, 21 Oct 2015 07:28:00 GMT"), 0);
  assert.ok((milliseconds("Wed, 21 Oct 2115 07:28:00 GMT") ?? 0) > 1e12);
  for (const unusable of [null, "", "soon", "9".repeat(400)]) {
    assert.equal(milliseconds(unusable), undefined);
  }
});

test("the forms of replies are those of the description", async () => {
  const description = await (await fetch(`${url}/openapi.json`)).json();
  const made = readFileSync(new URL("../forms.js", import.meta.url), "utf8");
  assert.equal(made, formsOf(description), "npm run forms writes forms.js");
});

test("a body may be compressed", async () => {
  const response = await fetch(`${url}/v1/query`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Content-Encoding": "gzip" },
    body: gzipSync(JSON.stringify({ text: words(1) })),
  });
  assert.equal(response.status, 200);
});
