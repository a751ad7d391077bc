// Numbers, sizes, times and verdicts as the console writes them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { linePath, ticks } from "../../../src/http/routes/console/charts.js";
import { ago, bits, bytes, duration, list, percent, plural, shorten, time } from "../../../src/http/routes/console/format.js";
import { columns } from "../../../src/http/routes/console/index.js";
import { scope } from "../../../src/http/routes/console/jobs.js";
import { comparison, lookedUp } from "../../../src/http/routes/console/verdict.js";

test("sizes, shares and durations have units that fit", () => {
  assert.deepEqual([0, 1023, 1024, 1536, 3 * 2 ** 30].map(bytes), ["0 B", "1,023 B", "1 KiB", "1.5 KiB", "3 GiB"]);
  assert.deepEqual([null, 0, 0.8299, 0.83, 1].map(percent), ["\u2013", "0 %", "82.9 %", "83 %", "100 %"]);
  assert.deepEqual([0.25, 12, 1500, 59_000, 90_000, 7_200_000, 2 * 86_400_000].map(duration), ["250 \u00b5s", "12 ms", "1.5 s", "59 s", "1.5 min", "2 h", "2 d"]);
  assert.equal(ago(1000, 61_000), "1 min ago");
  assert.deepEqual([plural(1, "bit"), plural(2, "bit"), plural(1200, "copy", "copies")], ["1 bit", "2 bits", "1,200 copies"]);
  assert.equal(list(["read", "write", "admin"]), "read, write and admin");
  assert.match(time(1_700_000_000_000), /^2023-11-1[345] \d\d:\d\d:\d\d$/);
});

test("bits stand with the most significant first", () => {
  assert.deepEqual(bits("8000000000000001").flatMap((bit, at) => (bit ? [63 - at] : [])), [63, 0]);
  assert.equal(bits("ffffffffffffffff").reduce((sum, bit) => sum + bit), 64);
});

test("a long id keeps its beginning and its end, and no half of a character", () => {
  const long = `https://a.example/${"\ud83d\ude00".repeat(500)}/end`;
  const short = shorten(long, 40);
  assert.ok([...short].length <= 41 && short.startsWith("https://") && short.endsWith("/end"), short);
  assert.ok(!/[\ud800-\udbff](?![\udc00-\udfff])/.test(short));
  assert.equal(shorten("short", 40), "short");
});

test("the lines of a chart are round numbers up to the largest value", () => {
  assert.deepEqual(ticks(0, 0), [0, 1]);
  for (const high of [0.003, 1, 7, 42, 99, 100, 12_345, 9e9]) {
    for (const low of [0, 0.3 * high, 0.999 * high]) {
      const lines = ticks(low, high);
      const holds = lines[0] <= low && lines.at(-1) >= high * (1 - 1e-9) && lines.at(-2) < high && lines[1] > low;
      assert.ok(holds && lines.length <= 5, `${low} to ${high}: ${lines}`);
    }
  }
  assert.deepEqual(ticks(0, 900 * 2 ** 20, { unit: 1024 }).map(bytes), ["0 B", "500 MiB", "1,000 MiB"]);
  assert.equal(linePath([1, null, 2, 3], (x) => x, (y) => y), "M0.0 1.0h0.1M2.0 2.0h0.1L3.0 3.0");
});

test("the history is read by its columns", () => {
  const all = columns({ columns: ["at", "documents"], rows: [["2026-01-01T00:00:00Z", 1], ["2026-01-01T00:01:00Z", null]] });
  assert.deepEqual(all.get("documents"), [1, null]);
});

const HIT = { fingerprint: "0".repeat(16), distance: 2, similarity: 0.97, numbers: null, confirmed: true, documents: [], document_count: 1 };
const REPLY = { fingerprint: "0".repeat(16), short: false, duplicate: false, hits: [], hit_count: 0, truncated: false };

test("a hit beyond the distance is not said to be within it", () => {
  const near = lookedUp({ ...REPLY, duplicate: true, hits: [HIT], hit_count: 1 }, 3);
  const far = lookedUp({ ...REPLY, duplicate: true, hits: [{ ...HIT, distance: 4 }], hit_count: 1 }, 3);
  assert.equal(near.text, "The fingerprints differ in 2 of 64 bits, and the texts are 97 % alike.");
  assert.match(far.text, /differ in 4 of 64 bits, beyond the distance of 3: a likely search found it/);
});

test("each outcome of a check-and-insert has a verdict of its own", () => {
  const titles = ["inserted", "replaced", "already_present", "refreshed"].map((outcome) => lookedUp({ ...REPLY, outcome, stored: true }, 3).title);
  const duplicate = { ...REPLY, outcome: "duplicate", duplicate: true, hits: [HIT], hit_count: 1 };
  titles.push(lookedUp({ ...duplicate, stored: false }, 3).title, lookedUp({ ...duplicate, stored: true }, 3).title,
    lookedUp({ ...duplicate, stored: false, numbers_differ: true }, 3).title);
  assert.equal(new Set(titles.filter((title) => title)).size, 6);
  assert.equal(lookedUp({ ...REPLY, unverified_matches: 3 }, 3).tone, "unsure");
});

test("each reason that keeps two documents apart has words of its own", () => {
  const pair = { a: {}, b: {}, distance: 2, similarity: 0.5, numbers: 0.1, confirmed: false, duplicate: false, found_by: "distance" };
  const texts = ["distance", "labels", "similarity", "numbers", "length"].map((why) => comparison({ ...pair, kept_apart_by: why }, { distance: 3 }).text);
  [/not both texts/, /share no label/, /texts are 50 % alike, which is too little/, /only 10 % of their numbers/, /so short/].forEach((words, at) => assert.match(texts[at], words));
  const likely = comparison({ ...pair, distance: 9, kept_apart_by: "similarity", found_by: "likely" }, { distance: 3, minSimilarity: 0.83 });
  assert.match(likely.text, /share a label.*50 % alike; they must be 83 %/);
  const same = comparison({ ...pair, duplicate: true, similarity: 1, kept_apart_by: null });
  assert.equal(same.title, "Near-duplicates, but their numbers differ");
});

test("what a job concerns is said with its conditions", () => {
  assert.equal(scope({ kind: "purge", namespace: "news", prefix: "a/" }), "Documents of news, whose ids begin with a/.");
  assert.equal(scope({ kind: "purge", all_namespaces: true }), "Documents of all namespaces.");
  assert.equal(scope({ kind: "groups", namespace: null, distance: 3, min_size: 2 }), "Near-duplicates within 3 bits of the default namespace, in groups of at least 2.");
});
