// Verdicts in sentences, and the parts of the page that explain them.

import { h, svg } from "./dom.js";
import { bits, percent, plural } from "./format.js";

const ofBits = (distance) => (distance === 0 ? "The fingerprints are equal" : `The fingerprints differ in ${distance} of 64 bits`);
const agrees = (share) => `the texts are ${percent(share)} alike`;

// What a comparison says: { tone, title, text }.
export function comparison(reply, { distance, minSimilarity } = {}) {
  const apart = ofBits(reply.distance);
  const within = distance === undefined ? "" : ` At most ${plural(distance, "bit")} may differ.`;
  if (reply.duplicate) {
    const title = reply.numbers !== null && reply.numbers < 0.3
      ? "Near-duplicates, but their numbers differ" : "These are near-duplicates";
    const share = reply.similarity === null ? "" : `, and ${agrees(reply.similarity)}`;
    const found = reply.found_by === "likely"
      ? ` That is beyond the distance${distance === undefined ? "" : ` of ${distance}`}: a look-up finds them because their texts share a label.` : "";
    return { tone: "yes", title, text: `${apart}${share}.${found}` };
  }
  const least = minSimilarity ? `; they must be ${percent(minSimilarity)}` : ", which is too little";
  const texts = {
    distance: `${apart}.${within} They are not both texts, so nothing else can be compared.`,
    labels: `${apart}.${within} Their texts share no label either, so no look-up compares them.`
      + (reply.similarity > 0 ? ` If one did: ${agrees(reply.similarity)}.` : ""),
    similarity: reply.distance > (distance ?? 64)
      ? `Their texts share a label, so a look-up compares them, but ${agrees(reply.similarity)}${least}.`
      : `${apart}, but ${agrees(reply.similarity)}${least}.`,
    numbers: `${apart}, and ${agrees(reply.similarity)}, but only ${percent(reply.numbers)} of their numbers agree.`,
    length: `${apart}, and one of the texts is so short that only an equal fingerprint or a compared text counts.`,
  };
  return { tone: "no", title: "These are not near-duplicates", text: texts[reply.kept_apart_by] ?? apart };
}

const OUTCOMES = {
  inserted: ["Stored: it is new", "Nothing that is stored counts as its near-duplicate."],
  replaced: ["Stored: it replaced what its id had", "Nothing else that is stored counts as its near-duplicate."],
  already_present: ["Stored already, under this id", "Nothing has changed."],
  refreshed: ["Stored already, under this id", "It counts as new from now on."],
};

// What a look-up or a check-and-insert says.
export function lookedUp(reply, distance) {
  const [first] = reply.hits;
  const known = OUTCOMES[reply.outcome];
  if (known) return { tone: "yes", title: known[0], text: known[1] };
  if (reply.duplicate) {
    const beyond = first.distance > distance
      ? `, beyond the distance of ${distance}: a likely search found it by a label of its text` : "";
    const share = first.similarity === null ? "" : `, and ${agrees(first.similarity)}`;
    const text = `${ofBits(first.distance)}${beyond}${share}.`;
    const title = reply.outcome ? `${reply.numbers_differ ? "Not stored: a near-duplicate whose numbers differ"
      : reply.stored ? "Stored, though it is a near-duplicate" : "Not stored: it is a near-duplicate"}`
      : "A near-duplicate is stored";
    return { tone: reply.outcome && !reply.stored ? "no" : "yes", title, text };
  }
  const parts = [];
  if (reply.hit_count > 0) parts.push(`${plural(reply.hit_count, "stored fingerprint")} ${reply.hit_count === 1 ? "is" : "are"} near, but ${reply.hit_count === 1 ? "it does not count" : "none counts"}.`);
  else parts.push(`No stored fingerprint is within ${plural(distance, "bit")}, and no text beyond is similar enough.`);
  if (reply.short) parts.push("The text is short: only an equal fingerprint or a compared text counts.");
  if (reply.unverified_matches) parts.push(`${plural(reply.unverified_matches, "fingerprint")} could not be compared, because there are too many.`);
  return { tone: reply.unverified_matches ? "unsure" : "no", title: "No near-duplicate is stored", text: parts.join(" ") };
}

const SIGNS = { yes: "M4 10.5 8.2 14.5 16 6", no: "M5 5 15 15M15 5 5 15", unsure: "M10 4v7M10 15v.5" };

export function verdictBox({ tone, title, text }) {
  return h(`div.verdict.${tone}`,
    svg("svg.sign", { viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("path", { d: SIGNS[tone] })),
    h("div", h("h2", title), h("p", text)));
}

// Two rows of 64 bits; those that differ are marked by shape, not by colour alone.
export function bitRows(rows) {
  const all = rows.map(([, hex]) => bits(hex));
  const differs = all[0].map((bit, at) => all.some((row) => row[at] !== bit));
  const places = differs.flatMap((yes, at) => (yes ? [63 - at] : []));
  const label = rows.length < 2 ? "The 64 bits of the fingerprint"
    : places.length === 0 ? "All 64 bits agree" : `Bits that differ: ${places.join(", ")}`;
  return h("div.bits", { role: "img", "aria-label": label }, rows.map(([name], row) =>
    h("div.bitrow", name && h("span.bitname", name), h("div.cells", all[row].map((bit, at) =>
      h(`i${bit ? ".on" : ""}${differs[at] ? ".differs" : ""}`, { title: `bit ${63 - at}` }))))));
}

// A share or a distance on a line, with the place from which it counts.
function gauge({ label, shown, share, bound, note }) {
  return h("div.gauge", h("div.gaugehead", h("span", label), h("strong", shown)),
    share == null ? null
      : svg("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" },
        svg("rect.track", { x: 0, y: 4, width: 100, height: 4, rx: 2 }),
        svg("rect.fill", { x: 0, y: 4, width: Math.max(0.5, 100 * Math.min(1, share)), height: 4, rx: 2 }),
        bound !== undefined && svg("line.bound", { x1: 100 * bound, x2: 100 * bound, y1: 0, y2: 12 })),
    note && h("span.help", note));
}

export function measures(reply, { distance, minSimilarity, minNumbers } = {}) {
  return h("div.gauges",
    gauge({ label: "Distance", shown: `${reply.distance} of 64 bits`, share: reply.distance / 64,
      bound: distance === undefined ? undefined : distance / 64,
      note: distance === undefined ? null : `within ${distance} counts` }),
    gauge({ label: "Similarity", shown: reply.similarity === null ? "not known" : percent(reply.similarity), share: reply.similarity,
      bound: minSimilarity || undefined,
      note: reply.similarity === null ? "both must have come as texts" : minSimilarity ? `from ${percent(minSimilarity)} on it counts` : "of the two texts, estimated" }),
    gauge({ label: "Numbers in common", shown: reply.numbers === null ? "none to compare" : percent(reply.numbers), share: reply.numbers,
      bound: minNumbers || undefined, note: reply.numbers === null ? null : "dates, sums, versions; estimated" }));
}

export const how = (hit, distance) => (hit.distance <= distance
  ? `within the distance of ${distance}` : `beyond the distance of ${distance}; found by a label of its text`);

export const feature = (text) => h("code.feature", text.replaceAll(" ", "\u2423"));

