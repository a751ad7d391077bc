// Browse: namespaces, the documents of one, and one document; always a page of them.

import { waiting } from "./api.js";
import { address, pager } from "./pages.js";
import { facts, field, h, note, put, question, table } from "./dom.js";
import { ago, count, shorten, time } from "./format.js";
import { requestPanel } from "./request.js";
import { bitRows } from "./verdict.js";

const PAGE = 50;

export const title = "Browse";

export function create(app) {
  const namespace = app.namespaceInput();
  const prefix = h("input", { type: "text", autocomplete: "off", placeholder: "any" });
  const namespaces = h("section.card");
  const content = h("div.stack");
  let request = { path: "/v1/documents" };
  let turn = 0;
  const panel = requestPanel(app, () => request);
  const form = h("form.card.bar", { onsubmit: submitted }, h("div.wide", field("Namespace", namespace)),
    h("div.wide", field("Ids that begin with", prefix)), h("button", { type: "submit" }, "Show"));
  const listed = pager(app, { label: "Namespaces",
    load: (after, options) => app.api.get("/v1/namespaces", { limit: PAGE, after }, options),
    show: (reply) => table("Namespaces", ["Namespace", "#Documents"], [
      ...(reply.default_documents === null || listed.isLater ? [] : [[h("a", { href: address({}) }, "the default namespace"), count(reply.default_documents)]]),
      ...reply.namespaces.map((one) => [h("a", { href: address({ namespace: one.namespace }) }, one.namespace), count(one.documents)]),
    ]) });
  put(namespaces, h("h2", "Namespaces"), listed.element);

  function submitted(event) {
    event.preventDefault();
    const where = address({ namespace: namespace.value, prefix: prefix.value });
    if (location.hash === where) show(new URLSearchParams(where.split("?")[1]));
    else location.hash = where;
  }

  function documents(asked) {
    const query = { namespace: asked.namespace, prefix: asked.prefix, include: "metadata" };
    request = { path: "/v1/documents", query: { ...query, limit: PAGE } };
    const shown = pager(app, { label: "Documents",
      load: (after, options) => app.api.get("/v1/documents", { ...query, limit: PAGE, after }, options),
      show: (reply) => (reply.documents.length === 0
        ? note(reply.next ? "None on this page; there may be some on the next one." : "No document.")
        : table("Documents", ["Id", "Fingerprint", "Stored", "Metadata"], reply.documents.map((document) => row(document, asked.namespace)))) });
    put(content, h("section.card", h("h2", asked.namespace ? ["Documents of ", h("span.wrap", asked.namespace)] : "Documents of the default namespace"), shown.element));
    namespaces.hidden = false;
    shown.first();
    listed.first();
  }

  // All documents of a fingerprint.
  function ofFingerprint({ fingerprint, namespace: where }) {
    const path = `/v1/fingerprints/${encodeURIComponent(fingerprint)}`;
    request = { path, query: { namespace: where } };
    const shown = pager(app, { label: "Documents of this fingerprint",
      load: (after, options) => app.api.get(path, { namespace: where, include: "metadata", limit: PAGE, after }, options),
      show: (reply) => reply.documents.length === 0 ? note("No document.") : [bitRows([["", reply.fingerprint]]), table("Documents", ["Id", "Stored", "Metadata"], reply.documents.map((document) => row(document, where).toSpliced(1, 1)))] });
    put(content, h("section.card", h("h2", "Documents with the fingerprint ", h("code", fingerprint)), shown.element));
    shown.first();
  }

  async function one({ id, namespace: where }) {
    const path = `/v1/documents/${encodeURIComponent(id)}`;
    request = { path, query: { namespace: where } };
    const status = h("p.status", { role: "status" }, "Reading\u2026");
    put(content, h("section.card", h("h2.wrap", shorten(id, 300)), status));
    const mine = turn;
    const found = await app.api.get(path, { namespace: where }, waiting(status)).then((reply) => whole(reply, where), app.problemBox);
    // Another one may be shown by now.
    if (mine === turn) put(content, found);
  }

  function whole(document, where) {
    const refuses = app.refusesWrites;
    const named = { id: document.id, ...(where && { namespace: where }) };
    const remove = app.can("write") && h("button.danger", { type: "button", disabled: Boolean(refuses), onclick: () => ask(document, where) }, "Remove");
    const link = (view, parameters, text) => h("a.button.second", { href: `#/${view}?${new URLSearchParams(parameters)}` }, text);
    return h("section.card", h("h2.wrap", document.id), bitRows([["", document.fingerprint]]),
      facts([
        ["Fingerprint", h("a", { href: address({ fingerprint: document.fingerprint, namespace: where }) }, h("code", document.fingerprint))],
        ["Namespace", document.namespace ?? "the default one"],
        ["Recipe", document.recipe],
        ["Came as a text", document.verifiable ? `yes${document.short ? ", a short one" : ""}` : "no: hits on it cannot be verified"],
        ["Stored", `${time(document.stored_at_ms)}, ${ago(document.stored_at_ms)}`],
        ["Expires", document.expires_at ? time(document.expires_at * 1000) : "never"],
        document.sequence && ["Change", count(document.sequence)],
        ["Duplicates found", document.duplicates ? `${count(document.duplicates)}, the last ${ago(document.last_duplicate_at_ms)}` : "none counted"],
      ]),
      document.metadata && h("pre.code.alone", { tabindex: 0 }, JSON.stringify(document.metadata, null, 2)),
      h("div.row", link("lookup", named, "Look up"), link("compare", { a_id: document.id, ...(where && { namespace: where }) }, "Compare"),
        h("span.grow"), remove),
      refuses && app.can("write") && note(refuses));
  }

  async function ask(document, where) {
    const place = where ? ` from ${where}` : "";
    if (!(await question("Remove this document?", `${shorten(document.id, 400)}\n\nIt is removed${place} at once, and cannot be brought back.`, "Remove it"))) return;
    const status = h("p.status", { role: "status" }, "Removing\u2026");
    content.append(status);
    try {
      const { removed } = await app.api.remove(`/v1/documents/${encodeURIComponent(document.id)}`, { namespace: where }, waiting(status));
      put(content, h("div.card", h("p.wrap", { role: "status" }, removed ? "It is removed." : "It was gone already."),
        h("p", h("a", { href: address({ namespace: where }) }, "Back to the documents"))));
      content.querySelector("a").focus();
    } catch (error) {
      status.replaceWith(app.problemBox(error));
    }
  }

  function show(parameters) {
    const asked = Object.fromEntries(parameters);
    turn += 1;
    if (asked.namespace === undefined && !app.reachesAll) asked.namespace = namespace.value;
    namespace.value = asked.namespace ?? "";
    prefix.value = asked.prefix ?? "";
    namespaces.hidden = true;
    if (app.lacks(namespace)) put(content, app.lacks(namespace));
    else if (asked.id !== undefined) one(asked);
    else if (asked.fingerprint) ofFingerprint(asked);
    else documents(asked);
    panel.refresh();
  }

  return { element: h("div.view", app.heading(title, "What is stored, page by page."), form, content, namespaces, panel.element), refresh: panel.refresh, show };
}

function row({ id, fingerprint, stored_at_ms: storedAt, metadata }, namespace) {
  return [
    id === null ? h("span.note", "without an id") : h("a", { href: address({ id, namespace }) }, shorten(id, 120)),
    h("a", { href: address({ fingerprint, namespace }) }, h("code", fingerprint)),
    h("span", { title: time(storedAt) }, ago(storedAt)),
    metadata ? h("code.wrap", shorten(JSON.stringify(metadata), 90)) : "",
  ];
}
