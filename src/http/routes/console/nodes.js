// Nodes: what this service is among others, who decides, and what is wrong with whom.

import { facts, h, put } from "./dom.js";
import { count, duration, word } from "./format.js";
import { requestPanel } from "./request.js";

const POLL_MS = 3000;

export const title = "Nodes";

export function create(app) {
  const role = h("section.card", { "aria-label": "This service" });
  const nodes = h("ul.nodes");
  const panel = requestPanel(app, () => ({ path: "/v1/nodes" }));
  const polling = app.poll(POLL_MS, async () => {
    put(role, h("h2", "This service"), h("p", sentence(app.me.role)), passes(app.me.role));
    const reply = await app.api.get("/v1/nodes");
    put(nodes, reply.nodes.map((node) => h("li", shown(node))));
  });

  return {
    element: h("div.view", app.heading(title, "Who decides, who copies, and what is wrong."), polling.trouble, role, nodes, panel.element),
    refresh: panel.refresh, show: polling.start, hide: polling.stop,
  };
}

function sentence({ kind, decides, decider }) {
  if (kind === "alone") return "It runs alone, without followers or a cluster.";
  if (kind === "follower") return decides ? "It was a follower, and decides now." : `It follows ${decider ?? "a primary"}.`;
  if (decides) return "It is a node of a cluster, and leads it.";
  return decider ? `It is a node of a cluster; ${decider} leads.` : "It is a node of a cluster, and knows no leader now.";
}

// What it does not take itself, and where that goes.
function passes({ kind, decides, decider, forwards }) {
  if (kind === "alone" || decides) return null;
  const where = kind === "follower" ? "the primary" : "the leader";
  const goes = forwards ? decider ? `are passed on to ${where}, ${decider}` : `wait until there is ${where}` : `are refused: send them to ${where}${decider ? `, ${decider}` : ""}`;
  return h("ul.takes", h("li", "Look-ups, lists and statistics: answered here"), h("li.away", `Inserts, removals and purges: ${goes}`),
    h("li", "Searches for groups, snapshots: done here"));
}

const STATES = { leading: "leads", following: "follows", catching_up: "is catching up", halted: "has halted" };

function shown(node) {
  const isIll = Boolean(node.fault || node.error) || node.state === "halted";
  const name = node.address ?? "this service";
  return h(`article.card${node.is_self ? ".own" : ""}`,
    h("div.row", h("h3.wrap", name), node.is_self && h("span.pill.quiet", "this one"), h("span.grow"),
      h(`span.pill${isIll ? ".warn" : node.leads ? "" : ".quiet"}`, node.error ? "not reached" : STATES[node.state] ?? word(node.role))),
    node.error ? null : facts([
      ["Role", word(node.role ?? "not known")],
      node.role !== "alone" && !node.leads && ["Hears the others", node.connected ? "yes" : "no"],
      node.lag_ms != null && ["Behind by", node.lag_ms === 0 ? "nothing" : duration(node.lag_ms)],
      ["Position", count(node.position)], ["Documents", count(node.documents)], ["Version", node.version ?? "\u2013"],
    ]),
    node.fault && h("p.fault.wrap", node.fault),
    node.error && h("p.fault.wrap", node.error),
    node.next && h("p.wrap", "What helps: ", node.next),
    node.address && !node.is_self && h("p", h("a", { href: `${node.address}/`, rel: "noreferrer" }, "Its console")));
}
