// What nobody should send, and what somebody will.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { choose, enter, open, SEEN, sound, soundInAllLooks, startBrowser, startService, titled } from "../support.js";

const TEXT = "textarea[aria-label=\"Document\"]";
const SCRIPT = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">";
let browser;
let service;

before(async () => {
  [browser, service] = await Promise.all([startBrowser(), startService()]);
});
after(async () => {
  await browser.close();
  await service.stop();
});

test("a text of 20 MB gets the message of the service, and stays where it is", async () => {
  const page = await open(browser, service.url, { hash: "#/lookup", expects: [413, "failed"] });
  const text = "many words ".repeat(1_900_000);
  await enter(page, TEXT, text);
  await page.getByRole("button", { name: "Look up" }).click();
  await page.locator(".verdict.fault").getByText("body_too_large").waitFor();
  await page.locator(".chosen").getByText("pasted.txt \u00b7 19.9 MiB").waitFor();
  await sound(page);
  await page.goto(`${service.url}/#/compare`);
  await page.getByRole("heading", { level: 1, name: "Compare" }).waitFor();
  await enter(page, "textarea[aria-label=\"First document\"]", text);
  await enter(page, "textarea[aria-label=\"Second document\"]", "short");
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.locator(".verdict.fault").getByText("body_too_large").waitFor();
  await sound(page);
});

test("a binary file is looked up or refused in the words of the service", async () => {
  const page = await open(browser, service.url, { hash: "#/lookup", expects: [422, 400] });
  const bytes = Buffer.from(Array.from({ length: 50_000 }, (_, at) => (at * 131) % 256));
  await page.locator("input[type=file]").setInputFiles({ name: "program.bin", mimeType: "application/octet-stream", buffer: bytes });
  await page.getByRole("button", { name: "Look up" }).click();
  await page.locator(".result .verdict").waitFor();
  await page.locator("input[type=file]").setInputFiles({ name: "empty.bin", mimeType: "application/octet-stream", buffer: Buffer.alloc(2000) });
  await page.getByRole("button", { name: "Look up" }).click();
  await page.locator(".verdict.fault").getByText("empty_document").waitFor();
  await sound(page);
});

test("ids, metadata and texts with tags are shown as text", async () => {
  await service.post("/v1/insert", { id: SCRIPT, namespace: SCRIPT.slice(0, 200), text: `A text with ${SCRIPT} in it, which is stored as it is.`, metadata: { [SCRIPT]: SCRIPT } });
  const page = await open(browser, service.url, { hash: "#/browse" });
  await page.getByRole("link", { name: SCRIPT.slice(0, 40) }).click();
  // The table of namespaces has a link of the same name, and may still be there.
  await page.locator("tbody a[href*=\"id=\"]").first().click();
  await page.getByRole("heading", { level: 2 }).first().waitFor();
  await page.locator(SEEN).getByText("\"<script>").first().waitFor();
  await soundInAllLooks(page);
  await page.goto(`${service.url}/#/compare`);
  for (const label of ["First", "Second"]) await enter(page, `textarea[aria-label="${label} document"]`, `${label} ${SCRIPT}`);
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.locator(".passages li").first().waitFor();
  await sound(page);
  assert.notEqual(await page.title(), "taken");
  assert.equal(await page.locator("main script, main img").count(), 0);
});

test("an id of 2,048 bytes wraps at 400 pixels, and a longer one gets the message of the service", async () => {
  const id = "x".repeat(2048);
  await service.post("/v1/insert", { id, namespace: "long", text: "One more text that somebody has stored under a very long id indeed." });
  const page = await open(browser, service.url, { hash: "#/lookup", width: 400, expects: [400] });
  await enter(page, TEXT, "One more text that somebody has stored under a very long id indeed!");
  await page.getByLabel("Namespace").first().fill("long");
  await page.getByRole("button", { name: "Look up" }).click();
  await titled(page, "A near-duplicate is stored");
  await sound(page);
  await page.locator(".hit").getByRole("link").first().click();
  await page.getByRole("button", { name: "Remove", exact: true }).waitFor();
  await sound(page);
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await sound(page);
  await page.keyboard.press("Escape");
  await page.goto(`${service.url}/#/lookup`);
  await page.getByLabel("Its id, if it has one").fill(`${id}x`);
  await page.getByRole("button", { name: "Store it if it is new" }).click();
  await page.locator(".verdict.fault").getByText("invalid_value").waitFor();
  await sound(page);
});

test("a fingerprint that is none, and a distance that is too large, get messages", async () => {
  const page = await open(browser, service.url, { hash: "#/lookup", expects: [400] });
  await choose(page, "Fingerprint");
  await page.locator("input.mono").fill("nonsense");
  await page.getByRole("button", { name: "Look up" }).click();
  await page.locator(".verdict.fault").getByText("invalid_value").waitFor();
  await sound(page);
});
