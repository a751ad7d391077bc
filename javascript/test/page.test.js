// The code of docs/javascript.md does what the page shows, and has no wrong type (tsc reads it, too).
import assert from "node:assert/strict";
import { execSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

/** @param {string} language */
function blocks(language) {
  const page = readFileSync(new URL("../../docs/javascript.md", import.meta.url), "utf8");
  const found = page.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, "gms"));
  return [...found].map((block) => block[1]).join("");
}

test("the code of the page, saved in a new project, prints what the page shows", (context) => {
  const code = new URL("../target/page.js", import.meta.url);
  assert.equal(readFileSync(code, "utf8"), blocks("js"), "npm test writes target/page.js");

  // A clone in which nothing was installed, and a project beside it.
  const folder = mkdtempSync(join(tmpdir(), "nearprint-page-"));
  context.after(() => rmSync(folder, { recursive: true }));
  const sources = ["exchange.js", "forms.js", "nearprint.js", "replies.js"];
  const clone = join(folder, "nearprint", "javascript");
  for (const file of ["package.json", ...sources, "nearprint.d.ts", "README.md"]) {
    cpSync(new URL(`../${file}`, import.meta.url), join(clone, file));
  }
  const project = join(folder, "app");
  mkdirSync(project);
  /** @param {string} command */
  const run = (command) => execSync(command, { cwd: project, encoding: "utf8" });
  run("npm init --yes");
  const install = blocks("console").match(/^\$ (npm install .*)$/m)?.[1];
  assert(install, "the page has a line that installs the package");
  run(install);
  cpSync(code, join(project, "page.mjs"));
  assert.equal(run(`"${process.execPath}" page.mjs`), blocks("text"));
});
