// A follower, nodes of a cluster, a leader that dies, and a node that has halted.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";

import { answered, BINARY, enter, open, root, SEEN, sound, soundInAllLooks, startBrowser, startService, titled } from "../support.js";

const TEXT = "textarea[aria-label=\"Document\"]";
const LAMP = "The lamp on the second floor flickers when the lift starts, and nobody has found the loose wire behind the panel.";
const KETTLE = "The kettle whistles at six, before anybody else in the house is awake, and the dog barks at it as if it were new.";
let browser;

before(async () => { browser = await startBrowser(); });
after(() => browser.close());

test("a follower answers look-ups, and says where documents are stored", async () => {
  const primary = await startService();
  const follower = await startService({ args: ["--follow", primary.url] });
  try {
    await primary.post("/v1/insert", { id: "lamp", text: LAMP });
    const page = await open(browser, follower.url, { hash: "#/lookup", expects: [503] });
    await page.locator(SEEN).getByText("follower", { exact: true }).waitFor();
    await page.locator(SEEN).getByText(`This service follows ${primary.url} and takes no writes.`).waitFor();
    assert.equal(await page.getByRole("button", { name: "Store it if it is new" }).isDisabled(), true);
    await enter(page, TEXT, LAMP);
    await page.getByRole("button", { name: "Look up" }).click();
    await titled(page, "A near-duplicate is stored");
    await soundInAllLooks(page);
    await page.getByRole("link", { name: "lamp" }).click();
    assert.equal(await page.getByRole("button", { name: "Remove", exact: true }).isDisabled(), true);
    await page.getByRole("link", { name: "Nodes" }).click();
    await page.locator(SEEN).getByText(`are refused: send them to the primary, ${primary.url}`).waitFor();
    await soundInAllLooks(page);
    await page.getByRole("link", { name: "Index" }).click();
    await page.locator(SEEN).getByText("Writes: not ready").waitFor();
    await sound(page);
  } finally {
    await follower.stop();
    await primary.stop();
  }
});

test("a service that stops and comes back is noticed, and what is typed stays", async () => {
  const service = await startService();
  const page = await open(browser, service.url, { hash: "#/lookup", expects: ["failed"] });
  await enter(page, TEXT, LAMP);
  const { port } = new URL(service.url);
  await service.stop();
  await page.locator(SEEN).getByText("does not answer. The console asks again by itself.").waitFor();
  await page.getByRole("button", { name: "Look up" }).click();
  await page.locator(SEEN).getByText("Trying again").waitFor();
  await sound(page);
  const again = await startService({ args: ["--listen", `127.0.0.1:${port}`] });
  try {
    await titled(page, "No near-duplicate is stored");
    await page.locator(SEEN).getByText("The console asks again by itself.").waitFor({ state: "detached" });
    assert.equal(await page.locator(TEXT).first().inputValue(), LAMP);
  } finally {
    await again.stop();
  }
});

test("nodes pass writes on, and a console goes on by itself when the leader dies", async () => {
  const cluster = spawn("python3", [root("tests/console/cluster.py")], { env: { ...process.env, BINARY }, stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: cluster.stdout })[Symbol.asyncIterator]();
  const said = async () => JSON.parse((await lines.next()).value);
  try {
    const { nodes, leader } = await said();
    const other = nodes.find((url) => url !== leader);
    const leading = await open(browser, leader, { hash: "#/nodes", expects: [503, "failed"] });
    await leading.locator(SEEN).getByText("It is a node of a cluster, and leads it.").waitFor();
    await soundInAllLooks(leading);
    const page = await open(browser, other, { hash: "#/lookup", expects: [503] });
    await enter(page, TEXT, LAMP);
    await page.getByLabel("Its id, if it has one").fill("lamp");
    await page.getByRole("button", { name: "Store it if it is new" }).click();
    await titled(page, "Stored: it is new");
    await page.getByRole("link", { name: "Nodes" }).click();
    await page.locator(SEEN).getByText(`${leader} leads.`).waitFor();
    await page.locator(SEEN).getByText(`are passed on to the leader, ${leader}`).waitFor();
    await soundInAllLooks(page);
    await page.getByRole("link", { name: "Look up" }).click();
    await enter(page, TEXT, KETTLE);
    await page.getByLabel("Its id, if it has one").fill("kettle");
    cluster.stdin.write("kill\n");
    await said();
    await page.getByRole("button", { name: "Store it if it is new" }).click();
    await page.locator(SEEN).getByText("Trying again").waitFor();
    await answered(page);
    await titled(page, "Stored: it is new");
    await leading.locator(SEEN).getByText("does not answer. The console asks again by itself.").waitFor();
    await sound(page);
  } finally {
    cluster.stdin.end();
    await new Promise((resolve) => cluster.on("exit", resolve));
  }
});

test("a node that has halted says why and what helps", async () => {
  const service = await startService();
  const page = await open(browser, service.url, { hash: "#/compare", expects: [503] });
  const reply = (status, json) => ({ status, contentType: status === 200 ? "application/json" : "application/problem+json", body: JSON.stringify(json) });
  const me = { name: null, scopes: ["read", "write", "admin"], namespaces: null, rate: null, version: "0.1.0",
    role: { kind: "node", decides: false, decider: null, forwards: true }, limits: { distance_max: 3 } };
  const why = "The log has another history than this node: entry 7 is missing.";
  const halted = { title: "The node has halted", status: 503, detail: why, code: "node_halted" };
  const node = { address: "http://10.0.0.1:7878", is_self: true, role: "node", state: "halted", leads: false, connected: true, lag_ms: 93_000,
    position: 6, documents: 5, version: "0.1.0", fault: why, next: "nearprint cluster refound --config nearprint.toml", error: null };
  const lost = { ...node, address: "http://10.0.0.2:7878", is_self: false, state: null, fault: null, next: null, error: "no reply within 2 s" };
  await page.route("**/v1/me", (route) => route.fulfill(reply(200, me)));
  await page.route("**/readyz*", (route) => route.fulfill(reply(503, halted)));
  await page.route("**/v1/nodes", (route) => route.fulfill(reply(200, { nodes: [node, lost] })));
  await page.goto(`${service.url}/#/nodes`);
  await page.reload();
  await page.locator("#banner").getByText(why).waitFor();
  await page.locator(SEEN).getByText("has halted", { exact: true }).waitFor();
  await page.locator(SEEN).getByText("nearprint cluster refound --config nearprint.toml").waitFor();
  await page.locator(SEEN).getByText("not reached").waitFor();
  await soundInAllLooks(page);
  await service.stop();
});

test("the history is drawn by minute, and a key walks through it", async () => {
  const service = await startService();
  const page = await open(browser, service.url, { hash: "#/compare" });
  const columns = ["at", "documents", "memory_bytes", "resident_bytes", "journal_bytes", "disk_free_bytes", "inserted", "duplicate", "removed", "requests", "refused", "errors", "p50_us", "p99_us"];
  const rows = Array.from({ length: 60 }, (_, at) => [new Date(1.8e12 + at * 60_000).toISOString(), 1000 + at * at, 5e6 + at * 1e4, 4e7, 1e6 * at, 1e9, at % 7, 1, at % 5, 90 + at, 1, at === 30 ? 2 : 0,
    at === 20 ? null : 200 + at, at === 20 ? null : 900 + 10 * at]);
  await page.route("**/v1/history*", (route) => route.fulfill({ status: 200, contentType: "application/json",
    body: JSON.stringify({ interval_ms: 60_000, started_at: "2026-01-01T00:00:00Z", columns, rows }) }));
  await page.getByRole("link", { name: "Index" }).click();
  const documents = page.getByRole("slider", { name: "Documents" });
  await documents.waitFor();
  assert.equal(await page.locator("figure.chart").count(), 6);
  assert.match(await documents.getAttribute("aria-valuetext"), /documents 4,481$/);
  await documents.press("ArrowLeft");
  assert.match(await documents.getAttribute("aria-valuetext"), /documents 4,364$/);
  await soundInAllLooks(page);
  await service.stop();
});
