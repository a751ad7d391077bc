// Lists that come in pages: one page is shown, and the cursors of those before it are kept.

import { address as addressOf, waiting } from "./api.js";
import { button, h, put } from "./dom.js";

export const address = (parameters) => addressOf("#/browse", parameters);

// `load(after, options)` gets a page with its `next`; `show(reply)` makes what it looks like.
export function pager(app, { label, load, show }) {
  const status = h("p.status", { role: "status" });
  const body = h("div.stack");
  const back = button("Previous page", () => turn(-1));
  const forth = button("Next page", () => turn(1));
  const buttons = h("nav.row", { "aria-label": `Pages: ${label}`, hidden: true }, back, forth);
  const element = h("div.stack", body, status, buttons);
  // Those of the pages before, of the page that is shown, and of the next one.
  let [before, shown, next] = [[], undefined, null];
  let running = null;

  async function turn(by) {
    await (by < 0 ? go(before.slice(0, -1), before.at(-1)) : go([...before, shown], next));
    // The first or the last page has one button less.
    (forth.disabled ? back : forth).focus({ preventScroll: true });
    element.scrollIntoView();
  }

  async function go(earlier, after) {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    status.textContent = "Reading\u2026";
    try {
      const reply = await load(after, { signal: mine.signal, ...waiting(status) });
      [before, shown, next] = [earlier, after, reply.next];
      status.textContent = "";
      put(body, show(reply));
      back.disabled = before.length === 0;
      forth.disabled = !reply.next;
      buttons.hidden = back.disabled && forth.disabled;
    } catch (error) {
      if (running !== mine) return;
      status.textContent = "";
      buttons.hidden = true;
      put(body, app.problemBox(error));
    }
  }

  return {
    element,
    // Whether a page before the one that is shown exists.
    get isLater() { return before.length > 0; },
    first: () => go([], undefined),
  };
}
