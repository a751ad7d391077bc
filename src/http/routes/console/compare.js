// Compare: whether two documents are near-duplicates, and what decided that.

import { changedWords, numbers, passages, pieces, words } from "./diff.js";
import { pause } from "./api.js";
import { card, field, h, note, put, table } from "./dom.js";
import { count, plural } from "./format.js";
import { requestPanel } from "./request.js";
import { createSource } from "./source.js";
import { bitRows, comparison, feature, measures, verdictBox } from "./verdict.js";

const PASSAGES_SHOWN = 30;
const NUMBERS_SHOWN = 60;

export const title = "Compare";

export function create(app) {
  const a = createSource(app, { label: "First document", onchange: changed });
  const b = createSource(app, { label: "Second document", onchange: changed });
  const distance = app.distanceInput(changed);
  const similarity = app.shareInput(changed);
  const shared = app.shareInput(changed);
  const extract = h("select", { onchange: changed }, ["content", "visible", "main"].map((name) => h("option", { value: name }, name)));
  const button = h("button", { type: "submit" }, "Compare");
  const status = h("p.status", { role: "status" });
  const result = h("section.result", { "aria-label": "Result", hidden: true });
  const panel = requestPanel(app, () => ({ method: "POST", path: "/v1/compare", json: body(a.named ?? a.sketched("a"), b.named ?? b.sketched("b")) }));
  const run = app.runner({ status, result, button });

  const form = h("form.stack", { onsubmit: submitted, onkeydown: app.submitKey },
    h("div.pair",
      h("section.card", { "aria-label": "First document" }, h("h2.tag", "A"), a.element),
      h("section.card", { "aria-label": "Second document" }, h("h2.tag", "B"), b.element)),
    h("div.bar",
      field("Distance", distance), field("Least similarity", similarity), field("Least numbers", shared), field("Text of pages", extract),
      h("span.grow"), button),
    status);

  function changed() {
    panel.refresh();
  }

  const number = (input) => (input.value === "" ? undefined : Number(input.value));
  const options = () => ({ distance: number(distance), min_similarity: number(similarity), min_numbers: number(shared),
    extract: extract.value === "content" ? undefined : extract.value, explain: true });
  const body = (first, second) => ({ a: first, b: second, ...options() });

  // The service finds what is stored by its id.
  async function given(source, task) {
    return source.named ? { body: source.named, text: null } : source.read(task);
  }

  function submitted(event) {
    event.preventDefault();
    const missing = a.missing() ?? b.missing();
    if (missing) {
      status.textContent = missing.text;
      missing.control.focus();
      return;
    }
    run("Comparing\u2026", async (task) => {
      const [first, second] = [await given(a, task), await given(b, task)];
      const reply = await app.api.post("/v1/compare", body(first.body, second.body), { ...task, reads: true });
      await show(reply, first, second);
    });
  }

  async function show(reply, one, other) {
    const asked = { distance: number(distance), minSimilarity: number(similarity), minNumbers: number(shared) };
    const verdict = comparison(reply, asked);
    const differences = h("div.stack");
    put(result, verdictBox(verdict), h("div.card", measures(reply, asked)), differences,
      fingerprints(reply), reply.explanation && explained(reply));
    result.hidden = false;
    app.announce(`${verdict.title}. ${verdict.text}`);
    result.scrollIntoView({ block: "nearest" });
    if (one.text === null || other.text === null) {
      put(differences, note("The service keeps no texts: passages are shown where both texts are given here."));
      return;
    }
    put(differences, note("Comparing the words\u2026"));
    // The verdict is seen first.
    await pause(50);
    put(differences, textual(one.text, other.text), disagreeing(one.text, other.text));
  }

  return {
    element: h("div.view", app.heading(title, "Are these two near-duplicates, and why?"), form, result, panel.element),
    refresh: panel.refresh,
    show(parameters) {
      for (const [source, name] of [[a, "a"], [b, "b"]]) {
        const id = parameters.get(`${name}_id`);
        const fingerprint = parameters.get(`${name}_fingerprint`);
        if (id !== null) source.set("id", id, parameters.get("namespace"));
        else if (fingerprint !== null) source.set("fingerprint", fingerprint);
      }
      const given = app.handed("compare");
      if (given?.text) a.set(given.kind, given.text, given.namespace);
      if (given?.file) a.take(given.file);
      if (!given && ![...parameters].length) return;
      result.hidden = true;
      if (!a.missing() && !b.missing()) form.requestSubmit();
    },
  };
}

function textual(first, second) {
  const [a, b] = [words(first), words(second)];
  const found = changedWords(a, b);
  if (found.length === 0) {
    const same = first === second ? "The texts are equal." : "The texts have the same words; only white space differs.";
    return card("Passages that differ", note(same));
  }
  const all = passages(found, a, b);
  const [removed, added] = [0, 2].map((at) => found.reduce((sum, change) => sum + change[at + 1] - change[at], 0));
  const list = h("ol.passages");
  const more = h("button.second", { type: "button", onclick: extend });
  let shown = 0;
  function extend() {
    list.append(...all.slice(shown, shown + PASSAGES_SHOWN).map((passage, at) => passageRow(all, shown + at, a, b)));
    shown = Math.min(all.length, shown + PASSAGES_SHOWN);
    more.hidden = shown === all.length;
    more.textContent = `Show more of ${plural(all.length, "passage")}`;
  }
  extend();
  return card("Passages that differ",
    note(`${plural(all.length, "passage")}: ${plural(removed, "word")} of ${count(a.length)} only in A, ${plural(added, "word")} of ${count(b.length)} only in B; marks count as words.`),
    list, more);
}

function passageRow(all, at, a, b) {
  const { changes, a: inA, b: inB } = all[at];
  const before = at === 0 ? 0 : all[at - 1].a[1];
  const gap = inA[0] - before;
  const side = (text, range, marks, tag, name) => h("div.side", h("span.tag", { "aria-hidden": "true" }, name),
    h("p", { dir: "auto" }, pieces(text, range, marks).map(([piece, differs]) =>
      (differs ? h(tag, {}, piece) : differs === null ? h("span.note", piece) : piece))));
  return h("li", gap > 0 && h("p.gap", `${plural(gap, "equal word")}`),
    h("div.sides", side(a, inA, changes.map((change) => change.slice(0, 2)), "del", "A"),
      side(b, inB, changes.map((change) => change.slice(2)), "ins", "B")));
}

function disagreeing(first, second) {
  const [a, b] = [numbers(first), numbers(second)];
  if (a.size === 0 && b.size === 0) return null;
  const only = (one, other) => [...one].filter(([key]) => !other.has(key)).map(([, shown]) => shown);
  const [inA, inB] = [only(a, b), only(b, a)];
  const both = a.size - inA.length;
  const column = (name, items) => h("div", h("h4", `Only in ${name}`),
    items.length === 0 ? note("none") : h("ul.chips", items.slice(0, NUMBERS_SHOWN).map((item) => h("li", item))),
    items.length > NUMBERS_SHOWN && note(`and ${count(items.length - NUMBERS_SHOWN)} more`));
  return card("Numbers that disagree",
    note(inA.length + inB.length === 0 ? `Both have the same ${plural(both, "number")}.` : `${plural(both, "number")} in both.`),
    inA.length + inB.length === 0 ? null : h("div.sides", column("A", inA), column("B", inB)));
}

function fingerprints(reply) {
  const { a, b } = reply;
  const short = [a.short && "A", b.short && "B"].filter(Boolean);
  return card("Fingerprints",
    bitRows([["A", a.fingerprint], ["B", b.fingerprint]]),
    h("p.row.note", h("span", "A ", h("code", a.fingerprint)), h("span", "B ", h("code", b.fingerprint))),
    short.length > 0 && note(`${short.join(" and ")} ${short.length > 1 ? "are" : "is"} short: fewer than 10 words.`));
}

const signed = (value) => `${value > 0 ? "+" : ""}${Math.round(value * 10) / 10}`;

function explained({ explanation }) {
  const bits = explanation.differing_bits;
  return card("Features that decided",
    bits === null ? note("The features of a stored document or a fingerprint are not known.")
      : bits.length === 0 ? note("No bit differs.")
        : [note("A bit is 1 where the weights of the features sum up to more than 0. The features that pull the two sums apart most decide it."),
          table("Bits that differ", ["#Bit", "#Sum in A", "#Sum in B", "Features that pull them apart"], bits.map((bit) => [
            String(bit.bit), signed(bit.sum_a), signed(bit.sum_b),
            h("span.features", bit.features.map(({ feature: name, weight_a: inA, weight_b: inB }) =>
              h("span", feature(name), h("span.note", ` ${inA} in A, ${inB} in B`)))),
          ]))]);
}
