// The console with tokens: one that may do everything, one that reads, one for a namespace, and none.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { enter, makeToken, open, SEEN, sound, soundInAllLooks, startBrowser, startService, titled } from "../support.js";

const TEXT = "textarea[aria-label=\"Document\"]";
const LAMP = "The lamp on the second floor flickers when the lift starts, and nobody has found the loose wire behind the panel.";
const full = makeToken("keeper", "read,write,admin");
const reader = makeToken("reader", "read");
const news = makeToken("news", "read,write", ["news"]);
const shops = makeToken("shops", "read", ["shop/*"]);
let browser;
let service;

before(async () => {
  [browser, service] = await Promise.all([startBrowser(), startService({ tokens: [full, reader, news, shops] })]);
  await service.post("/v1/insert", { id: "lamp", text: LAMP }, full.secret);
  await service.post("/v1/insert", { id: "lamp", namespace: "news", text: LAMP }, full.secret);
});
after(async () => {
  await browser.close();
  await service.stop();
});

const dialog = (page) => page.getByRole("dialog", { name: "Access" });

test("without a token the console asks for one, says what is wrong with it, and keeps what was typed", async () => {
  const page = await open(browser, service.url, { hash: "#/lookup", expects: [401] });
  await dialog(page).getByText("This service needs a token.").waitFor();
  await soundInAllLooks(page);
  await dialog(page).getByLabel("Token").fill("nearprint_guess");
  await dialog(page).getByRole("button", { name: "Use it" }).click();
  await dialog(page).getByText("does not know this token").waitFor();
  await dialog(page).getByLabel("Token").fill("nearprint_\u0430\u0431\u0432");
  await dialog(page).getByRole("button", { name: "Use it" }).click();
  await dialog(page).getByText("it is mistyped").waitFor();
  assert.equal(await page.locator("#banner").textContent(), "");
  await page.keyboard.press("Escape");
  await dialog(page).waitFor({ state: "detached" });
  // Who has said no is not asked again by what happens by itself.
  await page.waitForResponse("**/v1/me");
  await page.waitForResponse("**/v1/me");
  assert.equal(await dialog(page).count(), 0);
  await enter(page, TEXT, LAMP);
  await page.getByRole("button", { name: "Look up" }).click();
  await dialog(page).getByLabel("Token").fill(reader.secret);
  await page.keyboard.press("Enter");
  await titled(page, "A near-duplicate is stored");
  assert.equal(await page.locator(TEXT).first().inputValue(), LAMP);
  assert.equal(await page.evaluate(() => localStorage.length), 0);
  await page.reload();
  await page.locator(SEEN).getByText("reader").waitFor();
  assert.equal(await dialog(page).count(), 0);
});

test("a token that may do everything sees everything", async () => {
  const page = await open(browser, service.url, { hash: "#/index", token: full.secret });
  await service.post("/v1/snapshots", undefined, full.secret);
  await page.reload();
  await page.getByRole("region", { name: "Snapshots" }).waitFor();
  assert.deepEqual(await page.locator("#views a").allTextContents(), ["Compare", "Look up", "Browse", "Index", "Nodes", "Jobs", "Originals"]);
  await sound(page);
});

test("a token that reads is not offered what it may not do", async () => {
  const page = await open(browser, service.url, { hash: "#/lookup", token: reader.secret });
  await page.getByRole("button", { name: "Look up" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Store it if it is new" }).isVisible(), false);
  await page.goto(`${service.url}/#/browse?id=lamp`);
  await page.getByRole("heading", { level: 2, name: "lamp" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Remove" }).count(), 0);
  await page.getByRole("link", { name: "Index" }).click();
  await page.locator(SEEN).getByText("Memory by part").waitFor();
  assert.equal(await page.getByRole("heading", { name: "Snapshots" }).count(), 0);
  await sound(page);
  await page.locator(SEEN).getByText("$NEARPRINT_TOKEN").waitFor();
  assert.ok(!(await page.content()).includes(reader.secret));
});

test("a token for one namespace works in it, and is told where it does not", async () => {
  const page = await open(browser, service.url, { hash: "#/lookup", token: news.secret, expects: [403] });
  assert.deepEqual(await page.locator("#views a").allTextContents(), ["Compare", "Look up", "Browse", "Jobs", "Originals"]);
  await enter(page, TEXT, LAMP);
  await page.getByRole("button", { name: "Look up" }).click();
  await titled(page, "A near-duplicate is stored");
  await sound(page);
  await page.getByLabel("Namespace").first().fill("shop");
  await page.getByRole("button", { name: "Look up" }).click();
  const fault = page.locator(".verdict.fault");
  await fault.getByText("namespace_not_allowed").waitFor();
  await fault.getByText("\u201cnews\u201d reaches news.").waitFor();
  assert.equal(await page.locator(TEXT).first().inputValue(), LAMP);
  await sound(page);
  await page.getByRole("link", { name: "Browse" }).click();
  await page.getByRole("link", { name: "lamp" }).click();
  await page.getByRole("button", { name: "Remove", exact: true }).waitFor();
  await page.goto(`${service.url}/#/index`);
  await page.locator(SEEN).getByText("This view needs all namespaces").waitFor();
  await sound(page);
});

test("a token for all namespaces with a prefix is asked for one of them", async () => {
  await service.post("/v1/insert", { id: "lamp", namespace: "shop/de", text: LAMP }, full.secret);
  const page = await open(browser, service.url, { hash: "#/browse", token: shops.secret });
  for (const view of ["Browse", "Originals"]) {
    await page.getByRole("link", { name: view }).click();
    await page.getByRole("heading", { level: 1, name: view }).waitFor();
    await page.locator("#main").getByText("Enter a namespace: this token reaches shop/*.").waitFor();
    await sound(page);
  }
  await page.getByRole("link", { name: "Browse" }).click();
  await page.getByRole("heading", { level: 1, name: "Browse" }).waitFor();
  await page.getByLabel("Namespace", { exact: true }).fill("shop/de");
  await page.getByRole("button", { name: "Show" }).click();
  await page.getByRole("link", { name: "lamp" }).waitFor();
  await sound(page);
});

test("a token that is withdrawn while the console is open is asked for again", async () => {
  const page = await open(browser, service.url, { hash: "#/lookup", token: full.secret, expects: [401] });
  await enter(page, TEXT, LAMP);
  await page.route("**/v1/**", (route) => route.continue({ headers: { ...route.request().headers(), authorization: "Bearer nearprint_gone" } }));
  await dialog(page).getByText("does not know this token").waitFor();
  await sound(page);
  assert.equal(await page.locator(TEXT).first().inputValue(), LAMP);
});
