// Originals: the documents with the most duplicates.

import { choice, field, h, note, put, table } from "./dom.js";
import { ago, count, shorten, time } from "./format.js";
import { address, pager } from "./pages.js";
import { requestPanel } from "./request.js";

const PAGE = 50;

export const title = "Originals";

export function create(app) {
  const namespace = app.namespaceInput();
  const hint = h("div");
  const order = choice("Order", [["duplicates", "Most duplicates"], ["recent", "Last duplicated"]], "duplicates", ask);
  const query = () => ({ namespace: namespace.value, order: order.value });
  const pages = pager(app, { label: "Originals",
    load: (after, options) => app.api.get("/v1/originals", { ...query(), limit: PAGE, after }, options),
    show: (reply) => (reply.originals.length === 0 ? note("No duplicate has been counted here.")
      : table("Originals", ["Document", "#Duplicates", "Last one", "Stored"], reply.originals.map((document) => row(document)))) });
  const panel = requestPanel(app, () => ({ path: "/v1/originals", query: query() }));

  function ask() {
    put(hint, app.lacks(namespace));
    if (!hint.firstChild) pages.first();
    panel.refresh();
  }

  function row({ id, fingerprint, duplicates, last_duplicate_at_ms: last, stored_at_ms: stored }) {
    const where = namespace.value;
    const name = id === null ? h("a", { href: address({ fingerprint, namespace: where }) }, h("code", fingerprint)) : h("a", { href: address({ id, namespace: where }) }, shorten(id, 120));
    return [name, count(duplicates), h("span", { title: time(last) }, ago(last)), h("span", { title: time(stored) }, ago(stored))];
  }

  const form = h("form.card.bar", { onsubmit: (event) => {
    event.preventDefault();
    ask();
  } }, h("div.wide", field("Namespace", namespace)), order.element, h("button", { type: "submit" }, "Show"));
  return {
    element: h("div.view", app.heading(title, "Which documents are copied most."), form, h("section.card", hint, pages.element), panel.element),
    refresh: panel.refresh, show: ask,
  };
}
