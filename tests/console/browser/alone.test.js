// Every view on a service alone, without tokens.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { answered, choose, corpus, enter, open, SEEN, sound, soundInAllLooks, startBrowser, startService, titled, verdict } from "../support.js";

const A = "textarea[aria-label=\"First document\"]";
const B = "textarea[aria-label=\"Second document\"]";
const TEXT = "textarea[aria-label=\"Document\"]";
let browser;
let service;

before(async () => {
  [browser, service] = await Promise.all([startBrowser(), startService()]);
});
after(async () => {
  await browser.close();
  await service.stop();
});

test("a comparison says its verdict first, then what differs", async () => {
  const page = await open(browser, service.url);
  await enter(page, A, corpus("en-harbour-1.txt"));
  await enter(page, B, `${corpus("en-harbour-2.txt")} Call 0471 22.`);
  await page.locator(A).first().press("Control+Enter");
  await titled(page, /These are (not )?near-duplicates/);
  assert.equal(await page.locator(".result > *").first().getAttribute("class").then((name) => name.split(" ")[0]), "verdict");
  await page.locator(".passages li").first().waitFor();
  assert.deepEqual((await page.locator(".passages del").allTextContents()).slice(0, 2), ["twelve", "last summer"]);
  assert.deepEqual((await page.locator(".passages ins").allTextContents()).slice(0, 2), ["fourteen", "two summers ago"]);
  assert.deepEqual(await page.locator(".chips li").allTextContents(), ["0471", "22"]);
  const marked = await page.locator(".bitrow").first().locator(".differs").count();
  const said = await page.locator(".gauge strong").first().textContent();
  assert.equal(said, `${marked} of 64 bits`);
  assert.equal(await page.getByRole("region", { name: "Bits that differ" }).locator("tbody tr").count(), marked);
  assert.match(await page.locator("#announcer").textContent(), /near-duplicates/);
  await soundInAllLooks(page);
});

test("equal texts, pages, fingerprints and short texts are compared, too", async () => {
  const page = await open(browser, service.url);
  const text = corpus("en-bees.txt");
  await enter(page, A, text);
  await enter(page, B, text.replaceAll(" ", "\n"));
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.locator(SEEN).getByText("only white space differs").waitFor();
  await choose(page, "Page", ".card:nth-child(2)");
  await enter(page, `${B}.mono`, `<nav>Home</nav><p>${text}</p><script>x</script>`);
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await answered(page);
  await page.locator(SEEN).getByText("only white space differs").waitFor();
  await choose(page, "Fingerprint", ".card:nth-child(1)");
  await choose(page, "Fingerprint", ".card:nth-child(2)");
  const inputs = page.getByLabel("Fingerprint", { exact: true });
  await page.locator(".card:nth-child(1) input.mono").fill("00000000000000ff");
  await page.locator(".card:nth-child(2) input.mono").fill("00000000000000f0");
  assert.ok(inputs);
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.locator(SEEN).getByText("differ in 4 of 64 bits").waitFor();
  await page.locator(SEEN).getByText("The service keeps no texts").waitFor();
  await sound(page);
});

test("stored documents are compared by their ids", async () => {
  const text = corpus("en-bees.txt");
  const namespace = "compared";
  await service.post("/v1/insert", { id: "first", namespace, text });
  await service.post("/v1/insert", { id: "second", namespace, text: text.replace("the", "this") });
  const page = await open(browser, service.url, { hash: `#/compare?a_id=first&b_id=second&namespace=${namespace}` });
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await titled(page, "These are near-duplicates");
  await page.locator(SEEN).getByText("The service keeps no texts").waitFor();
  const request = await page.getByRole("region", { name: "The same request" }).textContent();
  assert.match(request, /"a":\s*\{\s*"id":\s*"first",\s*"namespace":\s*"compared"\s*\}/);
  await sound(page);
});

test("two texts of a megabyte are compared while the page stays usable", async () => {
  const page = await open(browser, service.url);
  const words = Array.from({ length: 150_000 }, (_, at) => `w${(at * 7919) % 60_013}`);
  await enter(page, A, words.join(" "));
  await enter(page, B, words.map((word, at) => (at % 997 === 0 ? "other" : word)).join(" "));
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.locator(".passages li").nth(29).waitFor();
  await page.getByRole("button", { name: /Show more of 15\d passages/ }).click();
  assert.equal(await page.locator(".passages > li").count(), 60);
  assert.deepEqual(page.faults, []);
});

test("what is new is stored, and then what is nearly the same is found", async () => {
  const page = await open(browser, service.url, { hash: "#/lookup" });
  await enter(page, TEXT, corpus("de-ofen-1.txt"));
  await page.getByLabel("Its id, if it has one").fill("ofen");
  await page.getByRole("button", { name: "Look up" }).click();
  await titled(page, "No near-duplicate is stored");
  await page.getByRole("button", { name: "Store it if it is new" }).click();
  await titled(page, "Stored: it is new");
  await enter(page, TEXT, corpus("de-ofen-2.txt"));
  await page.getByLabel("Its id, if it has one").fill("");
  await page.getByRole("button", { name: "Look up" }).click();
  await titled(page, "A near-duplicate is stored");
  await page.getByRole("link", { name: "ofen" }).waitFor();
  await soundInAllLooks(page);
  await page.getByRole("button", { name: "Store it if it is new" }).click();
  await titled(page, "Not stored: it is a near-duplicate");
});

test("if nothing counts, the nearest document and the reason are shown", async () => {
  const page = await open(browser, service.url, { hash: "#/lookup" });
  const text = corpus("en-bees.txt");
  await service.post("/v1/insert", { id: "bees", text, metadata: { title: "Bees" } });
  const half = text.split(" ").map((word, at) => (at % 6 === 5 ? "other" : word)).join(" ");
  const reply = await service.post("/v1/query", { text: half });
  assert.equal(reply.duplicate, false, "the test needs a text that is near, and does not count");
  await enter(page, TEXT, half);
  await page.getByRole("button", { name: "Look up" }).click();
  await titled(page, "No near-duplicate is stored");
  await page.locator(SEEN).getByText(/Looking for the nearest/).waitFor({ state: "detached" });
  const texts = await page.locator(".result").innerText();
  assert.match(texts, /The nearest stored document|Nothing that is stored here is near|does not count/);
  await soundInAllLooks(page);
});

test("a hit beyond the distance says so, and leads to a comparison", async () => {
  const page = await open(browser, service.url, { hash: "#/lookup?fingerprint=00000000000000ff&namespace=far" });
  await titled(page, "No near-duplicate is stored");
  const text = corpus("fr-jardin.txt");
  await service.post("/v1/insert", { id: "jardin", namespace: "likely", text });
  const words = text.split(" ");
  const variant = Array.from({ length: words.length }, (_, at) => words.with(at, "autrement")).find(Boolean);
  const found = [];
  for (let at = 0; at < words.length && found.length === 0; at += 1) {
    const changed = words.with(at, "autrement").join(" ");
    const { hits: [hit] } = await service.post("/v1/query", { text: changed, namespace: "likely", distance: 0 });
    if (hit?.confirmed && hit.distance > 0) found.push(changed);
  }
  assert.ok(variant && found.length === 1, "some word flips a bit");
  await page.goto(`${service.url}/#/lookup`);
  await enter(page, TEXT, found[0]);
  await choose(page, "Text");
  await page.getByLabel("Namespace").first().fill("likely");
  await page.getByLabel("Distance").fill("0");
  await page.getByRole("button", { name: "Look up" }).click();
  await titled(page, "A near-duplicate is stored");
  await page.locator(".hit").getByText("beyond the distance of 0; found by a label of its text").waitFor();
  await page.locator(".hit").getByRole("button", { name: "Compare" }).click();
  await page.getByRole("heading", { level: 1, name: "Compare" }).waitFor();
  assert.equal(await page.locator(A).first().inputValue(), found[0]);
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await titled(page, "These are near-duplicates");
  await sound(page);
});

test("a file is looked up as the bytes that it has", async () => {
  const page = await open(browser, service.url, { hash: "#/lookup" });
  await service.post("/v1/insert", { id: "kiosk", text: "Am Kiosk gibt es K\u00e4se, \u00d6l und Br\u00f6tchen, aber nur bis zw\u00f6lf Uhr mittags." });
  await page.locator("input[type=file]").setInputFiles({ name: "kiosk.txt", mimeType: "text/plain",
    buffer: Buffer.from("Am Kiosk gibt es K\u00e4se, \u00d6l und Br\u00f6tchen, aber nur bis zw\u00f6lf Uhr mittags.", "latin1") });
  await page.locator(SEEN).getByText("kiosk.txt \u00b7").waitFor();
  await page.getByRole("button", { name: "Look up" }).click();
  await page.getByRole("link", { name: "kiosk" }).waitFor();
  await page.locator("details.request").evaluate((details) => { details.open = true; });
  await page.locator(SEEN).getByText("--data-binary @kiosk.txt").waitFor();
  await sound(page);
});

test("documents are shown page by page, and one is removed after a question", async () => {
  for (let at = 0; at < 120; at += 1) await service.post("/v1/insert", { id: `page/${String(at).padStart(3, "0")}`, namespace: "many", fingerprint: String(at).padStart(16, "0") });
  const page = await open(browser, service.url, { hash: "#/browse" });
  await page.getByRole("link", { name: "many" }).click();
  await page.getByRole("link", { name: "page/000" }).waitFor();
  await soundInAllLooks(page);
  const shown = page.getByRole("navigation", { name: "Pages: Documents" });
  assert.equal(await shown.getByRole("button", { name: "Previous page" }).isDisabled(), true);
  await shown.getByRole("button", { name: "Next page" }).click();
  await page.getByRole("link", { name: "page/050" }).waitFor();
  await shown.getByRole("button", { name: "Next page" }).click();
  await page.getByRole("link", { name: "page/119" }).waitFor();
  assert.equal(await shown.getByRole("button", { name: "Next page" }).isDisabled(), true);
  await shown.getByRole("button", { name: "Previous page" }).click();
  await page.getByRole("link", { name: "page/050" }).waitFor();
  await page.getByLabel("Ids that begin with").fill("page/07");
  await page.getByRole("button", { name: "Show" }).click();
  // The page of documents before has this one, too.
  await page.getByRole("link", { name: "page/050" }).waitFor({ state: "detached" });
  await page.getByRole("link", { name: "page/070" }).waitFor();
  assert.equal(await page.getByRole("link", { name: /^page\// }).count(), 10);
  await page.getByRole("link", { name: "page/077" }).click();
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await sound(page);
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.equal((await service.get("/v1/stats?namespace=many")).documents, 120);
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await page.getByRole("button", { name: "Remove it" }).click();
  await page.locator(SEEN).getByText("It is removed.").waitFor();
  assert.equal((await service.get("/v1/stats?namespace=many")).documents, 119);
});

test("a late reply does not take the place of what is shown by then", async () => {
  for (const id of ["late", "early"]) await service.post("/v1/insert", { id, namespace: "late", fingerprint: "00000000000000ff" });
  const page = await open(browser, service.url);
  let send;
  const held = new Promise((resolve) => { send = resolve; });
  await page.route("**/v1/documents/late?*", async (route) => {
    await held;
    await route.continue();
  });
  await page.goto(`${service.url}/#/browse?id=late&namespace=late`);
  await page.goto(`${service.url}/#/browse?id=early&namespace=late`);
  await page.getByRole("button", { name: "Remove", exact: true }).waitFor();
  const came = page.waitForResponse("**/v1/documents/late?*");
  send();
  await (await came).finished();
  await page.evaluate(() => new Promise((resolve) => { setTimeout(resolve, 50); }));
  assert.equal(await page.getByRole("heading", { level: 2, name: "early" }).count(), 1);
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await page.getByRole("button", { name: "Remove it" }).click();
  await page.getByText("It is removed.").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Back to the documents");
  await page.getByRole("link", { name: "Back to the documents" }).click();
  await page.getByRole("link", { name: "late", exact: true }).first().waitFor();
});

test("an address is looked up where it says, and what another view hands over is compared at once", async () => {
  await service.post("/v1/insert", { id: "both", text: corpus("de-ofen-1.txt") });
  await service.post("/v1/insert", { id: "both", namespace: "handed", text: corpus("fr-jardin.txt") });
  const page = await open(browser, service.url, { hash: "#/lookup?id=both&namespace=handed" });
  await titled(page, "No near-duplicate is stored");
  await page.goto(`${service.url}/#/lookup?id=both`);
  await page.locator("#main").getByText("/v1/query").waitFor();
  assert.equal(await page.getByLabel("Namespace").first().inputValue(), "");
  await page.goto(`${service.url}/#/compare?a_id=both&b_id=both`);
  await titled(page, "These are near-duplicates");
  await sound(page);
});

test("the index, the nodes, the jobs and the originals are shown", async () => {
  await service.post("/v1/snapshots");
  await service.post("/v1/purge", { namespace: "many", dry_run: true });
  await service.post("/v1/check-and-insert", { id: "copy-of-kiosk", text: "Am Kiosk gibt es K\u00e4se, \u00d6l und Br\u00f6tchen, aber nur bis zw\u00f6lf Uhr mittags." });
  const page = await open(browser, service.url, { hash: "#/index" });
  await page.locator(SEEN).getByText("Memory by part").waitFor();
  await page.getByRole("heading", { name: "Snapshots" }).waitFor();
  await page.locator(SEEN).getByText("Writes: ready").waitFor();
  await soundInAllLooks(page);
  await page.getByRole("link", { name: "Nodes" }).click();
  await page.locator(SEEN).getByText("It runs alone").waitFor();
  await soundInAllLooks(page);
  await page.getByRole("link", { name: "Jobs" }).click();
  await page.locator(SEEN).getByText("Count of what would be removed").waitFor();
  await page.locator(SEEN).getByText(/^\d+ documents found/).waitFor();
  await soundInAllLooks(page);
  await page.getByRole("link", { name: "Originals" }).click();
  await page.getByRole("link", { name: "kiosk", exact: true }).waitFor();
  await soundInAllLooks(page);
});

test("each view has an address, and the keyboard reaches everything", async () => {
  for (const [hash, title] of [["#/compare", "Compare"], ["#/lookup", "Look up"], ["#/browse", "Browse"], ["#/index", "Index"],
    ["#/nodes", "Nodes"], ["#/jobs", "Jobs"], ["#/originals", "Originals"], ["", "Compare"], ["#/nowhere", "Compare"]]) {
    const page = await open(browser, service.url, { hash });
    await page.getByRole("heading", { level: 1, name: title }).waitFor();
    assert.equal(await page.title(), `${title} \u00b7 nearprint`);
    await page.context().close();
  }
  const page = await open(browser, service.url, { hash: "#/browse?namespace=many&id=page%2F001" });
  await page.getByRole("heading", { level: 2, name: "page/001" }).waitFor();
  await page.goBack().catch(() => {});
  const other = await open(browser, service.url);
  await other.keyboard.press("Tab");
  assert.equal(await other.evaluate(() => document.activeElement.textContent), "Skip to the content");
  await other.keyboard.press("Enter");
  assert.equal(await other.evaluate(() => document.activeElement.id), "main");
  await other.keyboard.press("Tab");
  assert.equal(await other.evaluate(() => document.activeElement.type), "radio");
  await other.keyboard.press("ArrowRight");
  await other.keyboard.press("Tab");
  assert.equal(await other.evaluate(() => document.activeElement.className), "mono");
});

test("the same request is shown for curl and Python, and is copied", async () => {
  const page = await open(browser, service.url, { hash: "#/lookup" });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await enter(page, TEXT, "It's a \"lamp\".");
  await page.locator(SEEN).getByText("The same request").waitFor();
  await page.locator(SEEN).getByText("-d '{\"text\":\"It'\\''s a").waitFor();
  await choose(page, "Python", "details.request");
  await page.getByRole("button", { name: "Copy" }).click();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(copied, /client\.query\("It's a \\"lamp\\"\.", distance=3, limit=20\)/);
  await page.getByRole("link", { name: "Jobs" }).click();
  await page.locator(SEEN).getByText("client.jobs()").waitFor();
});

test("a job that runs is cancelled after a question, and keeps the focus while it is drawn anew", async () => {
  const page = await open(browser, service.url);
  const job = { job: "8b0c5e1f7a92d3641c0de9f2a7b35846", kind: "purge", state: "running", namespace: "many", dry_run: false, matched: 9, removed: 9,
    progress: 0.1, begun_at_ms: Date.now(), ended_at_ms: null };
  let asked = 0;
  const cancelled = [];
  await page.route("**/v1/jobs", (route) => {
    asked += 1;
    const earlier = { ...job, state: "done", begun_at_ms: job.begun_at_ms - 9000 };
    return route.fulfill({ json: { jobs: [earlier, { ...job, progress: asked / 100, state: cancelled.length > 0 ? "cancelled" : "running" }], next: null } });
  });
  await page.route("**/v1/jobs/*", (route) => {
    cancelled.push(`${route.request().method()} ${new URL(route.request().url()).pathname}`);
    return route.fulfill({ json: job });
  });
  await page.getByRole("link", { name: "Jobs" }).click();
  await page.getByRole("button", { name: "Cancel" }).focus();
  await page.getByRole("progressbar").waitFor();
  assert.equal(await page.locator(".jobs li").first().getByRole("progressbar").count(), 1, "the latest is the first");
  const before = asked;
  await page.waitForFunction(() => document.querySelector("progress").value >= 0.03);
  assert.ok(asked > before);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Cancel");
  await sound(page);
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Cancel it" }).click();
  await page.locator(SEEN).getByText("cancelled", { exact: true }).waitFor();
  assert.deepEqual(cancelled, [`DELETE /v1/jobs/${job.job}`]);
});

test("an empty form says what is missing and leads to it", async () => {
  const page = await open(browser, service.url);
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.locator(SEEN).getByText("Enter a document first.").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "First document");
  assert.equal(await verdict(page).count(), 0);
});
