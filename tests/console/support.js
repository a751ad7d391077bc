// Services and pages for the tests of the console.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const BINARY = process.env.NEARPRINT_TEST_SERVICE ?? join(ROOT, "target/debug/nearprint");
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export const corpus = (name) => readFileSync(join(ROOT, "tests/corpus", name), "utf8");
export const root = (path) => join(ROOT, path);

// Each view is seen so.
export const LOOKS = [[1280, "light"], [1280, "dark"], [400, "light"], [400, "dark"]];

export const startBrowser = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });

// A service with a directory of its own: { url, post, stop }.
export async function startService({ args = [], tokens } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "console-"));
  const settings = { NEARPRINT_SERVER__LISTEN: "127.0.0.1:0", NEARPRINT_DATA__DIRECTORY: join(folder, "data") };
  if (tokens) {
    writeFileSync(join(folder, "tokens"), tokens.map(({ line }) => line).join(""));
    settings.NEARPRINT_ACCESS__TOKENS_FILE = join(folder, "tokens");
  }
  const process_ = spawn(BINARY, ["serve", ...args], { env: { PATH: process.env.PATH, ...settings }, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  const url = await new Promise((resolve, reject) => {
    const heard = (chunk) => {
      said += chunk;
      const address = /listening on ([\d.:]+)/.exec(said)?.[1];
      if (address) resolve(`http://${address}`);
    };
    process_.stdout.on("data", heard);
    process_.stderr.on("data", heard);
    process_.on("exit", () => reject(new Error(said)));
  });
  return {
    url,
    post: (path, body, token) => call(url, "POST", path, body, token),
    get: (path, token) => call(url, "GET", path, undefined, token),
    async stop() {
      const ended = new Promise((resolve) => process_.on("exit", resolve));
      process_.kill();
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}

async function call(url, method, path, body, token) {
  const headers = { ...(body && { "content-type": "application/json" }), ...(token && { authorization: `Bearer ${token}` }) };
  const reply = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
  assert.ok(reply.ok, `${path}: ${reply.status} ${await reply.clone().text()}`);
  return reply.json();
}

// A new token: { line, secret }.
export function makeToken(name, scopes, namespaces = []) {
  const wanted = namespaces.flatMap((namespace) => ["--namespace", namespace]);
  const made = spawnSync(BINARY, ["token", name, "--scopes", scopes, ...wanted], { encoding: "utf8" });
  return { line: made.stdout, secret: /nearprint_[0-9a-f]{64}/.exec(made.stderr)[0] };
}

// A page of the console that notes what it must not do. `expects` are statuses of replies that the test provokes.
export async function open(browser, url, { hash = "#/compare", width = 1280, scheme = "light", token, expects = [] } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme, reducedMotion: "reduce" });
  if (process.env.NEARPRINT_TEST_CONSOLE) await context.route(/^[^?#]*\/(console\/[^?]*|favicon\.ico)?$/, fromSource);
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(error.stack));
  page.on("console", (message) => {
    const isOfReply = message.text().startsWith("Failed to load resource");
    if (["error", "warning"].includes(message.type()) && !isOfReply) faults.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(`${url}/`)) faults.push(`a request elsewhere: ${request.url()}`);
  });
  page.on("response", (reply) => {
    if (reply.status() >= 400 && !expects.includes(reply.status())) faults.push(`${reply.status()} ${reply.url()}`);
  });
  page.on("requestfailed", (request) => {
    if (!expects.includes("failed") && request.failure()?.errorText !== "net::ERR_ABORTED") faults.push(`${request.failure()?.errorText} ${request.url()}`);
  });
  if (token) await page.addInitScript((secret) => sessionStorage.setItem("nearprint-token", secret), token);
  page.faults = faults;
  await page.goto(`${url}/${hash}`);
  await page.waitForSelector("h1");
  return page;
}

const POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// The files of the console as they are now, whatever the program has.
function fromSource(route) {
  const { pathname } = new URL(route.request().url());
  const name = { "/": "index.html", "/favicon.ico": "icon.svg" }[pathname] ?? pathname.slice("/console/".length);
  const contentType = { html: "text/html; charset=utf-8", css: "text/css", svg: "image/svg+xml" }[name.split(".")[1]] ?? "text/javascript";
  return route.fulfill({ body: readFileSync(root(`src/http/routes/console/${name}`)), contentType, headers: { "content-security-policy": POLICY } });
}

// Nothing was done that must not be, axe finds nothing, and nothing is wider than its card or the page.
export async function sound(page) {
  assert.deepEqual(page.faults, []);
  const wide = await page.evaluate(() => {
    const out = document.documentElement.scrollWidth > innerWidth ? [`the page: ${document.documentElement.scrollWidth}`] : [];
    for (const card of document.querySelectorAll(".card, .verdict, .request, .heading, .inner, dialog, #banner, .facts dd, .field, .side")) {
      if (card.clientWidth > 0 && card.scrollWidth > card.clientWidth + 1) out.push(`${card.className || card.tagName}: ${card.scrollWidth} in ${card.clientWidth}`);
    }
    return out;
  });
  assert.deepEqual(wide, []);
  const found = await page.evaluate(`${AXE}; axe.run().then(({ violations }) => violations.map(({ id, nodes }) =>
    id + ": " + nodes.slice(0, 3).map((node) => node.html.slice(0, 200) + " " + node.any.map((one) => one.message).join(" ")).join(" | ")))`);
  assert.deepEqual(found, []);
}

// The same at both widths and in both schemes.
export async function soundInAllLooks(page) {
  for (const [width, scheme] of LOOKS) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme: scheme });
    await sound(page);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
}

// Sets a value as a person does, but at once.
export async function enter(page, selector, value) {
  await page.locator(selector).first().evaluate((control, text) => {
    control.value = text;
    control.dispatchEvent(new Event("input", { bubbles: true }));
  }, value);
}

// Everything but what is read aloud only.
export const SEEN = "#main, header, #banner";
export const verdict = (page) => page.locator(".result .verdict").first();
// Waits for the reply to what was asked for last, which may have the same words as the one before.
export const answered = (page) => page.locator("[aria-busy=true]").waitFor({ state: "detached" });
export const titled = async (page, text) => verdict(page).getByRole("heading", { name: text }).waitFor();
export const choose = (page, label, within = "main") => page.locator(`${within} .choice`).getByText(label, { exact: true }).first().click();
