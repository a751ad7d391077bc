// Look up: whether a near-duplicate is stored, what counts and what does not; and storing what is new.

import { button, card, field, h, note, put } from "./dom.js";
import { ago, count, plural, percent, time } from "./format.js";
import { address } from "./pages.js";
import { requestPanel } from "./request.js";
import { createSource, isPage, sketchOf } from "./source.js";
import { bitRows, comparison, how, lookedUp, measures, verdictBox } from "./verdict.js";

const HITS = 20;
// So little agrees between any two texts; what a likely search finds with it is the nearest there is.
const ANY_SIMILARITY = 0.01;

export const title = "Look up";

export function create(app) {
  const namespace = app.namespaceInput(changed);
  const source = createSource(app, { label: "Document", onchange: changed, namespace, rows: 10 });
  const id = h("input", { type: "text", autocomplete: "off", placeholder: "https://a.example/1", oninput: changed });
  const own = h("div.wide", field("Its id, if it has one", id));
  const distance = app.distanceInput(changed);
  const similarity = app.shareInput(changed);
  const shared = app.shareInput(changed);
  const age = h("input.narrow", { type: "number", min: 1, placeholder: "any", oninput: changed });
  const search = h("select", { onchange: changed }, ["default", "likely", "exact"].map((name) => h("option", { value: name }, name)));
  const ask = h("button", { type: "submit", name: "query" }, "Look up");
  const store = h("button.second", { type: "submit", name: "store" }, "Store it if it is new");
  const refused = h("p.note");
  const status = h("p.status", { role: "status" });
  const result = h("section.result", { "aria-label": "Result", hidden: true });
  const run = app.runner({ status, result, button: ask });
  const panel = requestPanel(app, described);
  let read = null;
  let stores = false;

  const form = h("form.card.stack", { onsubmit: submitted, onkeydown: app.submitKey }, source.element,
    h("div.bar", h("div.wide", field("Namespace", namespace)), own, field("Distance", distance)),
    h("details", h("summary", "More options"), h("div.bar.inset", field("Least similarity", similarity), field("Least numbers", shared),
      field("Search", search), field("Stored in the last seconds", age))),
    h("div.row", ask, store, refused), status);

  function changed() {
    stores = false;
    allowed();
    panel.refresh();
  }

  function allowed() {
    const why = app.refusesWrites;
    const isStored = source.kind === "id";
    ask.hidden = !app.can("read");
    store.hidden = !app.can("write");
    store.disabled = Boolean(why) || isStored;
    own.hidden = isStored;
    put(refused, app.can("write") && (why ?? (isStored && "It is stored already.")));
  }

  const number = (input) => (input.value === "" ? undefined : Number(input.value));
  const filled = (text) => text || undefined;
  const options = () => ({ namespace: filled(namespace.value), id: filled(source.kind === "id" ? source.id : id.value), distance: number(distance),
    min_similarity: number(similarity), min_numbers: number(shared), max_age: number(age),
    search: search.value === "default" ? undefined : search.value });

  function described() {
    if (source.kind === "id" && read?.id !== source.id) return { path: `/v1/documents/${encodeURIComponent(source.id)}`, query: { namespace: namespace.value } };
    const path = pathOf();
    const asked = full();
    if (source.kind === "file" && source.file) {
      return { method: "POST", path, query: asked, file: source.file.name, type: isPage(source.file) ? "text/html" : "text/plain" };
    }
    return { method: "POST", path, json: { ...seen(), ...asked } };
  }

  const pathOf = () => (stores || !app.can("read") ? "/v1/check-and-insert" : "/v1/query");
  const full = () => ({ ...options(), limit: HITS, counts: stores || undefined });
  const seen = () => (source.kind === "id" && read?.id === source.id ? read.body : source.sketched("document"));

  function submitted(event) {
    event.preventDefault();
    stores = event.submitter?.name === "store" || !app.can("read");
    const missing = source.missing();
    if (missing) {
      status.textContent = missing.text;
      missing.control.focus();
      return;
    }
    remember();
    run(stores ? "Storing\u2026" : "Looking up\u2026", async (task) => {
      read = await source.read(task);
      const path = pathOf();
      const asked = full();
      const sent = { ...task, reads: !stores };
      // The service decodes a file as it decodes any body.
      const reply = read.file
        ? await app.api.postRaw(path, read.file, isPage(read.file) ? "text/html" : "text/plain", { ...asked, include: "metadata" }, sent)
        : await app.api.post(path, { ...read.body, ...asked, include: ["metadata"] }, sent);
      panel.refresh();
      show(reply, asked.distance);
      if (!reply.duplicate && !stores && reply.hits.length === 0) await nearest(read.body, asked, task);
    });
  }

  // What is stored has an address; what is typed has none.
  function remember() {
    const where = new URLSearchParams();
    if (source.kind === "id") where.set("id", source.id);
    if (source.kind === "fingerprint") where.set("fingerprint", source.given.text);
    if (namespace.value) where.set("namespace", namespace.value);
    history.replaceState(null, "", `#/lookup${[...where].length ? `?${where}` : ""}`);
  }

  function show(reply, asked) {
    const verdict = lookedUp(reply, asked);
    const rest = reply.truncated && note(`${plural(reply.hit_count, "fingerprint")} match; the first ${count(reply.hits.length)} are listed.`);
    put(result, verdictBox(verdict), h("ol.hits", reply.hits.map((hit) => h("li", hitCard(hit, reply, asked)))), rest,
      reply.hits.length === 0 ? card("Fingerprint", bitRows([["", reply.fingerprint]]),
        h("p.row.note", h("code", reply.fingerprint), reply.short ? "short: fewer than 10 words" : null)) : null);
    result.hidden = false;
    app.announce(`${verdict.title}. ${verdict.text}`);
    result.scrollIntoView({ block: "nearest" });
  }

  // The nearest stored document, and what keeps it from counting.
  async function nearest(body, asked, task) {
    const searching = note("Looking for the nearest stored document\u2026");
    result.append(searching);
    const wider = { namespace: asked.namespace, id: asked.id, distance: app.limits.distance_max ?? asked.distance, min_similarity: ANY_SIMILARITY,
      search: "likely", limit: 5, include: ["metadata"] };
    const reply = await app.api.post("/v1/query", { ...body, ...wider }, { ...task, reads: true });
    const [best] = reply.hits.toSorted((one, other) => (other.similarity ?? 0) - (one.similarity ?? 0) || one.distance - other.distance);
    if (!best) {
      searching.textContent = `Nothing else that is stored here is near: no fingerprint within ${plural(wider.distance, "bit")}, and no text that shares a label with this one.`;
      return;
    }
    const [stored] = best.documents.filter((document) => document.id !== null);
    const other = stored ? { id: stored.id, namespace: asked.namespace }
      : { fingerprint: best.fingerprint, ...await sketchOf(app, best.fingerprint, asked.namespace, () => true, task) };
    const criteria = { distance: asked.distance, min_similarity: asked.min_similarity, min_numbers: asked.min_numbers };
    const compared = await app.api.post("/v1/compare", { a: body, b: other, ...criteria }, { ...task, reads: true });
    searching.replaceWith(h("section.stack", { "aria-label": "The nearest stored document" }, h("h2", "The nearest stored document"),
      hitCard(best, reply, asked.distance, keptApart(compared, asked))));
  }

  function keptApart(compared, asked) {
    if (!compared.duplicate) return comparison(compared, asked).text;
    if (asked.max_age) return `It would count, but it was stored before the last ${plural(asked.max_age, "second")}.`;
    return "A likely search counts it; this look-up did not make one.";
  }

  function hitCard(hit, reply, asked, why) {
    const counts = why === undefined && (hit.confirmed ?? (!reply.short || hit.distance === 0));
    const least = number(similarity);
    const others = hit.document_count - hit.documents.length;
    const compareWith = () => {
      app.hand("compare", source.given);
      const [first] = hit.documents.filter((document) => document.id !== null);
      const where = first ? { b_id: first.id, namespace: namespace.value } : { b_fingerprint: hit.fingerprint };
      location.hash = `#/compare?${new URLSearchParams(where)}`;
    };
    return h(`article.card.hit${counts ? "" : ".weak"}`,
      h("div.row", h(`span.pill${counts ? "" : ".quiet"}`, counts ? "counts" : "does not count"),
        h("span.note", how(hit, asked)), h("span.grow"), button("Compare", compareWith)),
      counts ? null : h("p", why ?? unconfirmed(hit)),
      measures(hit, { distance: asked, minSimilarity: least, minNumbers: number(shared) }),
      bitRows([["", reply.fingerprint], ["", hit.fingerprint]]),
      h("ul.documents", hit.documents.map((document) => documentLine(document, namespace.value))),
      others > 0 ? note(h("a", { href: address({ fingerprint: hit.fingerprint, namespace: namespace.value }) },
        `${hit.document_count_is_at_least ? "at least " : ""}${plural(others, hit.documents.length ? "more document" : "document")} with this fingerprint`)) : null);
  }

  return {
    element: h("div.view", app.heading(title, "Is this document, or nearly this document, stored?"), form, result, panel.element),
    refresh: panel.refresh, allowed,
    show(parameters) {
      allowed();
      const where = parameters.get("namespace");
      if (where !== null || ["id", "fingerprint"].some((kind) => parameters.has(kind))) namespace.value = where ?? "";
      for (const kind of ["id", "fingerprint"]) {
        const value = parameters.get(kind);
        if (value === null || (source.kind === kind && source.given.text === value)) continue;
        source.set(kind, value);
        form.requestSubmit(ask);
      }
    },
  };
}

// Why a hit within the distance does not count.
function unconfirmed(hit) {
  if (hit.confirmed === null) return "The text that was looked up is short: only an equal fingerprint counts.";
  if (hit.similarity === null) return "Its text was not compared, because too many fingerprints are near.";
  if (hit.numbers !== null && hit.similarity >= 0.83) return `Its words agree; ${percent(hit.numbers)} of the numbers do, which is too little.`;
  return `Only ${percent(hit.similarity)} of the two texts agrees, which is too little.`;
}

function documentLine(document, namespace) {
  const { id, stored_at_ms: storedAt, expires_at: expires, metadata } = document;
  return h("li", id === null ? h("span.note", "without an id") : h("a.wrap", { href: address({ id, namespace }) }, id),
    h("span.note", { title: time(storedAt) }, ` stored ${ago(storedAt)}`), expires && h("span.note", `, expires ${time(expires * 1000)}`),
    metadata && h("details", h("summary", "Metadata"), h("pre.code.small", JSON.stringify(metadata, null, 2))));
}
