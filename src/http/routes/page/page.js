"use strict";

const $ = (id) => document.getElementById(id);
const made = (tag, text, name) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (name) node.className = name;
  return node;
};

async function showCounts() {
  const stats = await (await fetch("/v1/stats")).json();
  $("distance").max = stats.distance_max;
  const counts = [
    ["documents", stats.documents],
    ["memory of the index", bytes(stats.memory.total_bytes)],
    ["journal", bytes(stats.journal.bytes)],
  ];
  $("counts").replaceChildren(...counts.map(([name, value]) => {
    const pair = made("div");
    pair.append(made("dt", name), made("dd", value.toLocaleString()));
    return pair;
  }));
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) { count /= 1024; unit += 1; }
  return `${count.toLocaleString(undefined, { maximumFractionDigits: 1 })} ${units[unit]}`;
}

async function ask(store) {
  const body = { text: $("text").value, distance: Number($("distance").value) };
  if ($("id").value) body.id = $("id").value;
  const reply = await fetch(store ? "/v1/check-and-insert" : "/v1/query", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return reply.json();
}

const VERDICTS = {
  inserted: "New: it is stored now.",
  replaced: "New: it took the place of what its id had.",
  already_present: "Stored already, under this id.",
  refreshed: "Stored already, under this id; it counts as new.",
  duplicate: "A near-duplicate: it was not stored.",
};

function verdict(reply) {
  if (reply.numbers_differ) return "A near-duplicate whose numbers differ: it was not stored.";
  if (reply.outcome) return VERDICTS[reply.outcome];
  if (reply.duplicate) return "There is a near-duplicate.";
  if (reply.unverified_matches) return "No near-duplicate was found, but not all were compared.";
  return reply.hit_count ? "Nothing that counts, but see below." : "No near-duplicate was found.";
}

function row(hit) {
  const line = made("tr", undefined, hit.confirmed === false ? "weak" : "");
  const similarity = hit.similarity === null ? "not verifiable" : hit.similarity.toFixed(2);
  const numbers = hit.numbers === null ? "" : hit.numbers.toFixed(2);
  const named = hit.documents.map((document) => document.id).filter((id) => id !== null);
  const others = hit.document_count - named.length;
  const ids = named.join(", ") + (named.length > 0 && others > 0 ? ` and ${others} more` : "");
  line.append(made("td", hit.distance), made("td", similarity), made("td", numbers));
  const fingerprint = made("td");
  fingerprint.append(made("code", hit.fingerprint));
  line.append(fingerprint, made("td", ids || "without an id"));
  return line;
}

function show(reply) {
  $("answer").hidden = false;
  const failed = !reply.fingerprint;
  $("verdict").className = failed ? "problem" : "";
  $("verdict").textContent = failed ? reply.detail || reply.title : verdict(reply);
  $("fingerprint").textContent = reply.fingerprint || "";
  const bits = failed ? [] : [...reply.fingerprint].flatMap(
    (digit) => [...parseInt(digit, 16).toString(2).padStart(4, "0")]);
  $("bits").replaceChildren(...bits.map((bit) => made("i", undefined, bit === "1" ? "on" : "")));
  const hits = reply.hits || [];
  $("hits").replaceChildren(...hits.map(row));
  document.querySelector("table").hidden = hits.length === 0;
  const short = reply.short ? "The text is short: only equal or verified ones count. " : "";
  const rest = reply.truncated ? `${reply.hit_count} stored fingerprints match in all.` : "";
  $("more").textContent = short + rest;
}

$("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const buttons = document.querySelectorAll("button");
  buttons.forEach((button) => { button.disabled = true; });
  try {
    show(await ask(event.submitter && event.submitter.name === "store"));
    await showCounts();
  } catch {
    show({ detail: "The service did not answer." });
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
  }
});

showCounts().catch(() => {});
