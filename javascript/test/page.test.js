// The code of docs/javascript.md does what the page shows, and has no wrong type (tsc reads it, too).
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";

/** @param {string} language */
function blocks(language) {
  const page = readFileSync(new URL("../../docs/javascript.md", import.meta.url), "utf8");
  const found = page.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, "gms"));
  return [...found].map((block) => block[1]).join("");
}

test("the code of the page prints what the page shows", () => {
  const code = readFileSync(new URL("../target/page.js", import.meta.url), "utf8");
  assert.equal(code, blocks("js"), "npm test writes target/page.js");
  const printed = execFileSync(process.execPath, ["target/page.js"], {
    cwd: new URL("..", import.meta.url),
    encoding: "utf8",
  });
  assert.equal(printed, blocks("text"));
});
