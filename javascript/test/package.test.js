// The package has the types of the service at NEARPRINT_URL, or is not made.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { test } from "node:test";

const schema = new URL("../schema.d.ts", import.meta.url);

/** @param {string} url */
function pack(url) {
  rmSync(schema, { force: true });
  return spawnSync("npm", ["pack", "--dry-run", "--json", "--foreground-scripts=false"], {
    cwd: new URL("..", import.meta.url),
    env: { ...process.env, NEARPRINT_URL: url },
    encoding: "utf8",
  });
}

test("without a service there is no package, and the error says why", () => {
  const { status, stderr } = pack("http://127.0.0.1:9");
  assert.notEqual(status, 0);
  assert.match(stderr, /error: schema.d.ts cannot be made from .*='http:\/\/127.0.0.1:9'/);
});

test("the package has the client and all its types", () => {
  const { status, stdout, stderr } = pack(process.env["NEARPRINT_URL"] ?? "");
  assert.equal(status, 0, stderr);
  /** @type {{ files: { path: string }[] }[]} */
  const packages = JSON.parse(stdout);
  assert.deepEqual(packages[0]?.files.map((file) => file.path).sort(), [
    "README.md",
    "exchange.js",
    "forms.js",
    "nearprint.d.ts",
    "nearprint.js",
    "package.json",
    "replies.js",
    "schema.d.ts",
  ]);
});
