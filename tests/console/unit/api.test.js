// Which requests are sent again, and what becomes of errors.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { Problem, address, createApi, waiting } from "../../../src/http/routes/console/api.js";

const real = globalThis.fetch;
afterEach(() => { globalThis.fetch = real; });

// Answers one request after the other; what is null is no answer. Returns what was sent.
function answers(...replies) {
  const sent = [];
  globalThis.fetch = (url, { method, headers }) => {
    sent.push(`${method} ${url} ${headers.authorization ?? "-"}`);
    const reply = replies.shift();
    if (!reply) return Promise.reject(new TypeError("Failed to fetch"));
    const [status, body, retryAfter = "0.001"] = reply;
    return Promise.resolve(new Response(typeof body === "string" ? body : JSON.stringify(body), { status, headers: { "retry-after": retryAfter } }));
  };
  return sent;
}

const session = (next = []) => ({
  token: null, asked: [], reached() {},
  ask(problem) {
    this.asked.push(problem.code);
    this.token = next.shift() ?? null;
    return Promise.resolve(this.token !== null);
  },
});
const problem = (status, code) => [status, { status, code, title: "No", detail: `It is ${code}` }];
const waits = () => {
  const status = { textContent: "" };
  return { status, options: waiting(status) };
};

test("what was certainly not done is sent again, and the person is told", async () => {
  for (const code of ["no_leader", "leader_unreachable", "primary_unreachable", "behind", "overloaded", "rate_limited"]) {
    const sent = answers(problem(503, code), problem(503, code), [200, { stored: true }]);
    const { status, options } = waits();
    assert.deepEqual(await createApi(session()).post("/v1/insert", {}, options), { stored: true });
    assert.equal(sent.length, 3, code);
    assert.equal(status.textContent, "No. Trying again\u2026");
  }
});

test("a write is not sent again if it may have been done, nor anything that was refused for good", async () => {
  for (const reply of [problem(503, "outcome_unknown"), problem(503, "follower"), problem(413, "body_too_large"), problem(403, "scope_missing"), null]) {
    const sent = answers(reply, [200, {}]);
    await assert.rejects(createApi(session()).post("/v1/insert", {}, waits().options), Problem);
    assert.equal(sent.length, 1);
  }
});

test("a request that reads is sent again when no answer comes", async () => {
  const sent = answers(null, null, [200, { documents: [] }]);
  assert.deepEqual(await createApi(session()).get("/v1/documents", { prefix: "a b", after: undefined }, waits().options), { documents: [] });
  assert.deepEqual(sent, Array(3).fill("GET /v1/documents?prefix=a+b -"));
  answers([200, "{\"documents\": [cut"]);
  await assert.rejects(createApi(session()).get("/v1/documents"), { code: "no_answer" });
});

test("a token is asked for once, and the request is sent again with it", async () => {
  const sent = answers(problem(401, "token_missing"), problem(401, "token_unknown"), [200, {}]);
  const asking = session(["first", "second"]);
  await createApi(asking).get("/v1/stats");
  assert.deepEqual(sent, ["-", "Bearer first", "Bearer second"].map((token) => `GET /v1/stats ${token}`));
  assert.deepEqual(asking.asked, ["token_missing", "token_unknown"]);
  answers(problem(401, "token_missing"));
  await assert.rejects(createApi(session()).get("/v1/stats"), { status: 401 });
});

test("an error has the words of the service, or those of whoever answered in its place", async () => {
  answers(problem(400, "invalid_value"));
  await assert.rejects(createApi(session()).get("/v1/stats"), { title: "No", detail: "It is invalid_value", code: "invalid_value", status: 400 });
  answers([502, "<h1>Bad gateway</h1>"]);
  await assert.rejects(createApi(session()).get("/v1/stats"), { title: "The reply has the status 502", detail: "<h1>Bad gateway</h1>", code: "" });
});

test("an address has no empty parameters", () => {
  assert.equal(address("/v1/documents", { namespace: "", prefix: null, limit: 0, after: "a&b" }), "/v1/documents?limit=0&after=a%26b");
});
