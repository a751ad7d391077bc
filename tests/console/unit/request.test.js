// The lines that the console offers do what they show: a shell and Python read them.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { FromFile, curl, inlined, literal, python } from "../../../src/http/routes/console/request.js";

const ORIGIN = "http://127.0.0.1:7878";
const NASTY = ["it's", "a \"b\" \\ $HOME `id` !x", "two\nlines\r\n\ttab", "\u6f22\u5b57 \ud83d\ude00", "<script>", "-n", "", "\x7f\x01", "\u2028", "%41 & ; | * ? [a] {b} ~ #"];
let folder;

before(() => { folder = mkdtempSync(join(tmpdir(), "console-")); });
after(() => rmSync(folder, { recursive: true }));

// The words that curl gets, and what it reads from its input.
function heard(line, variables = {}) {
  const script = `curl() { for word; do printf '%s\\0' "$word"; done; case "$*" in *'-d @-'*) cat;; esac; }\n${line}`;
  const said = execFileSync("sh", ["-c", script], { cwd: folder, encoding: "utf8", env: { PATH: process.env.PATH, ...variables } });
  return said.split("\0");
}

// The calls that the client gets, as JSON.
function called(text, variables = {}) {
  const stub = `import json
class Client:
    def __init__(self, *a, **k): self.made = [a, k]
    def __enter__(self): return self
    def __exit__(self, *a): pass
    def __getattr__(self, name):
        def call(*a, **k):
            print(json.dumps([self.made, name, a, k], default=lambda value: value.decode()))
            return []
        return call
`;
  writeFileSync(join(folder, "nearprint.py"), stub);
  const said = execFileSync("python3", ["-c", text], { cwd: folder, encoding: "utf8", env: { PATH: process.env.PATH, PYTHONDONTWRITEBYTECODE: "1", ...variables } });
  return JSON.parse(said.split("\n")[0]);
}

test("the line for a shell sends the same body, whatever the text has", () => {
  for (const text of NASTY) {
    const line = curl({ method: "POST", path: "/v1/query", json: { text, distance: 3 } }, ORIGIN);
    const said = heard(line);
    assert.deepEqual(said.slice(0, -2), ["-s", `${ORIGIN}/v1/query`, "-H", "Content-Type: application/json", "-d"]);
    assert.deepEqual(JSON.parse(said.at(-2)), { text, distance: 3 });
  }
});

test("the line for a shell has parameters, the method and the token where they are needed", () => {
  const query = { namespace: "a b&c", after: undefined, prefix: "" };
  assert.deepEqual(heard(curl({ path: "/v1/documents", query }, ORIGIN)), ["-s", `${ORIGIN}/v1/documents?namespace=a+b%26c`, ""]);
  const removal = heard(curl({ method: "DELETE", path: "/v1/documents/a", needsToken: true }, ORIGIN), { NEARPRINT_TOKEN: "secret" });
  assert.deepEqual(removal, ["-s", `${ORIGIN}/v1/documents/a`, "-X", "DELETE", "-H", "Authorization: Bearer secret", ""]);
  const file = curl({ method: "POST", path: "/v1/query", query: { limit: 3 }, file: "it's.html", type: "text/html" }, ORIGIN);
  assert.deepEqual(heard(file), ["-s", `${ORIGIN}/v1/query?limit=3`, "-H", "Content-Type: text/html", "--data-binary", "@it's.html", ""]);
});

test("a long text is read from a file", () => {
  const long = "tea's \"best\"\n".repeat(1000);
  writeFileSync(join(folder, "a text.txt"), long);
  const [kept, named] = [inlined("short", "x.txt"), inlined(long, "a text.txt")];
  assert.equal(kept, "short");
  const body = { a: { text: named }, b: { text: "it's" }, distance: 3 };
  const line = curl({ method: "POST", path: "/v1/compare", json: body }, ORIGIN);
  assert.ok(line.length < 300, line);
  if (has("jq")) assert.deepEqual(JSON.parse(heard(line).at(-1)), { ...body, a: { text: long } });
  const [, name, positional] = called(python({ path: "/v1/compare", json: body }, ORIGIN));
  assert.deepEqual([name, positional], ["compare", [{ text: long }, { text: "it's" }]]);
});

function has(program) {
  try {
    execFileSync("sh", ["-c", `command -v ${program}`]);
    return true;
  } catch {
    return false;
  }
}

test("the lines of Python make the same call", () => {
  for (const text of NASTY) {
    const shown = python({ path: "/v1/query", json: { text, id: text, distance: 3, explain: true, max_age: undefined } }, ORIGIN);
    const named = { distance: 3, explain: true, ...(text && { id: text }) };
    const [made, name, positional, given] = called(shown);
    assert.deepEqual([made, name, positional], [[[ORIGIN], {}], "query", [text]]);
    assert.deepEqual(given, named);
  }
  const [made] = called(python({ path: "/v1/documents", needsToken: true }, ORIGIN), { NEARPRINT_TOKEN: "secret" });
  assert.deepEqual(made, [[ORIGIN], { token: "secret" }]);
});

test("each request is the call of the client that does the same", () => {
  writeFileSync(join(folder, "a.html"), "<p>tea");
  const calls = [
    [{ path: "/v1/query", query: { limit: 20 }, file: "a.html", type: "text/html" }, "query", [], { html: "<p>tea", limit: 20 }],
    [{ path: "/v1/query", query: { limit: 20 }, file: "a.html", type: "text/plain" }, "query", ["<p>tea"], { limit: 20 }],
    [{ path: "/v1/query", json: { fingerprint: "00", distance: 2 } }, "query", [], { fingerprint: "00", distance: 2 }],
    [{ path: "/v1/documents", query: { namespace: "n", prefix: "p", limit: 50, include: "metadata" } }, "documents", [], { namespace: "n", prefix: "p" }],
    [{ path: "/v1/documents/a%2Fb", query: { namespace: "n" } }, "get", ["a/b"], { namespace: "n" }],
    [{ path: "/v1/fingerprints/00ff", query: {} }, "documents_of", ["00ff"], {}],
    [{ path: "/v1/jobs" }, "jobs", [], {}],
    [{ path: "/v1/originals", query: { order: "recent" } }, "originals", [], { order: "recent" }],
    [{ path: "/v1/stats" }, "stats", [], {}],
  ];
  for (const [request, ...expected] of calls) {
    assert.deepEqual(called(python(request, ORIGIN)).slice(1), expected, request.path);
  }
});

test("values are literals of Python", () => {
  const value = [true, false, null, { "a'b": [1.5, "x"] }];
  assert.equal(literal(value), "[True, False, None, {\"a'b\": [1.5, \"x\"]}]");
  assert.equal(literal(new FromFile("page's.html", true)), "Path(\"page's.html\").read_bytes()");
});
