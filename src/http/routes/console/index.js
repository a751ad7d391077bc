// Index: how large it is, how it grows, what requests cost, and what it needs.

import { chart, parts } from "./charts.js";
import { card, facts, h, note, put, table } from "./dom.js";
import { ago, bytes, count, duration, plural, time, word } from "./format.js";
import { requestPanel } from "./request.js";

const POLL_MS = 5000;
const MINUTES = [["60", "1 hour"], ["360", "6 hours"], ["1440", "24 hours"]];
const OUTCOMES = ["inserted", "duplicate", "already_present", "refreshed", "replaced", "removed"];

export const title = "Index";

export function create(app) {
  const now = h("div.stack");
  const rest = h("div.stack");
  const history = h("div.stack");
  const snapshots = h("div.stack");
  const minutes = h("select.narrow", { "aria-label": "How far back", onchange: () => polling.tried(draw()) }, MINUTES.map(([value, name]) => h("option", { value }, name)));
  const panel = requestPanel(app, () => ({ path: "/v1/stats" }));
  let rounds = 0;
  const polling = app.poll(POLL_MS, async () => {
    const stats = await app.api.get("/v1/stats");
    put(now, figures(stats, await health(app)));
    put(rest, details(stats));
    if (rounds % 6 === 0) await Promise.all([draw(), listSnapshots()]);
    rounds += 1;
  });

  async function draw() {
    const reply = await app.api.get("/v1/history", { minutes: minutes.value });
    put(history, h("div.row", h("h2", "By minute"), h("span.grow"), minutes), charts(reply));
  }

  async function listSnapshots() {
    if (!app.can("admin") || !app.reachesAll) return;
    const { snapshots: all } = await app.api.get("/v1/snapshots");
    put(snapshots, card("Snapshots",
      all.length === 0 ? note("There is none yet.")
        : table("Snapshots", ["Taken", "#Change", "#Documents", "#Size"], all.slice(0, 20).map((one) =>
          [`${time(one.taken_at_ms)}, ${ago(one.taken_at_ms)}`, count(one.sequence), count(one.documents), bytes(one.bytes)]))));
  }

  return {
    element: h("div.view", app.heading(title, "How large it is, how it grows, and what it needs."), polling.trouble, now, history, rest, snapshots, panel.element),
    refresh: panel.refresh,
    show() {
      rounds = 0;
      polling.start();
    },
    hide: polling.stop,
  };
}

async function health(app) {
  const probe = (path) => app.api.get(path, {}, { quiet: true }).then(() => null, (problem) => problem);
  const [reads, writes] = await Promise.all([probe("/readyz"), probe("/readyz/writes")]);
  return [["Look-ups", reads], ["Writes", writes]];
}

function figures(now, states) {
  const { memory, journal } = now;
  const { policy, interval_ms: interval } = now.durability;
  const figure = (value, name) => h("div", h("dd", value), h("dt", name));
  return [
    h("dl.figures", figure(count(now.documents), "documents"), figure(count(now.namespaces), now.namespaces === 1 ? "namespace besides the default" : "namespaces besides the default"),
      figure(bytes(memory.total_bytes), "memory of the index"), figure(bytes(journal.bytes), "journal"), figure(duration(now.uptime_seconds * 1000), "since the start")),
    h("section.card", h("h2.unseen", "Health"), h("div.row", states.map(([name, problem]) =>
      h(`span.pill${problem ? ".warn" : ""}`, `${name}: ${problem ? "not ready" : "ready"}`)), h("span.grow"),
    h("span.note", `nearprint ${now.version} \u00b7 recipe ${now.recipe} \u00b7 distance at most ${now.distance_max} \u00b7 durability ${policy}${interval ? `, ${duration(interval)}` : ""}`)),
    states.filter(([, problem]) => problem).map(([name, problem]) => h("p", `${name}: ${problem.detail || problem.title}`))),
  ];
}

function details({ memory, journal, disk, index }) {
  const names = ["tables", "documents", "ids", "labels", "removals", "namespaces", "deltas", "merging", "bodies", "replies"];
  const rows = names.map((name) => [name, memory[`${name}_bytes`]]);
  return [
    card("Memory by part", note(`${bytes(memory.total_bytes)} in the index, ${bytes(memory.resident_bytes)} resident`,
      memory.max_bytes ? `; the limit is ${bytes(memory.max_bytes)}` : "; without a limit"),
    parts(rows.filter(([, value]) => value > 0), memory.max_bytes, bytes)),
    h("div.pair",
      card("Journal", facts([["Size", `${bytes(journal.bytes)} in ${plural(journal.files, "file")}`], ["Of stored documents", `at least ${bytes(journal.live_bytes)}`],
        ["Packs", count(journal.packs)], ["Freed since the start", bytes(journal.reclaimed_bytes)]])),
      card("Disk", facts([["Free", bytes(disk.free_bytes)], ["Must stay free", bytes(disk.needed_bytes)]]), disk.free_bytes < 2 * disk.needed_bytes && note(disk.freeing))),
    card("Segments", note(`${plural(index.segments.length, "immutable part")}, and ${plural(index.delta_events, "change")} that ${index.delta_events === 1 ? "is" : "are"} in none yet.`),
      index.segments.length === 0 ? null : table("Segments", ["#Documents", "#Fingerprints", "#Memory", "Tables"], index.segments.slice(0, 100).map((one) =>
        [count(one.documents), count(one.fingerprints), bytes(one.bytes), h("code", one.plan)]))),
  ];
}

// Columns by name, from rows of values.
export function columns(reply) {
  return new Map(reply.columns.map((name, at) => [name, reply.rows.map((row) => row[at])]));
}

function charts(reply) {
  if (reply.rows.length < 2) return h("section.card", note("The first minutes are being counted."));
  const all = columns(reply);
  const at = all.get("at").map((text) => Date.parse(text));
  const of = (name, shown = word(name)) => ({ name: shown, values: all.get(name) ?? at.map(() => null) });
  const thousandth = ({ name, values }) => ({ name, values: values.map((value) => (value === null ? null : value / 1000)) });
  const used = OUTCOMES.filter((name) => all.get(name)?.some((value) => value > 0));
  const shown = [
    { title: "Documents", series: [of("documents")], format: count, fromZero: false },
    { title: "Writes by outcome", note: "a minute", series: (used.length > 0 ? used : ["inserted"]).map((name) => of(name)), format: count, stacked: true },
    { title: "Latency", series: [thousandth(of("p50_us", "median")), thousandth(of("p99_us", "99 %"))], format: duration },
    { title: "Requests", note: "a minute", series: ["requests", "errors", "refused"].map((name) => of(name)), format: count },
    { title: "Memory", series: [of("memory_bytes", "index"), of("resident_bytes", "resident")], format: bytes, unit: 1024 },
    { title: "Journal", series: [of("journal_bytes", "journal")], format: bytes, unit: 1024 },
  ];
  return h("div.pair", shown.map((one) => h("section.card", chart({ at, ...one }))));
}
