// The frame of the console: views by their addresses, who asks, and how the service is.

import { createApi, Problem, waiting } from "./api.js";
import { button, field, h, newId, note, put } from "./dom.js";
import { list } from "./format.js";
import * as browse from "./browse.js";
import * as compare from "./compare.js";
import * as index from "./index.js";
import * as jobs from "./jobs.js";
import * as lookup from "./lookup.js";
import * as nodes from "./nodes.js";
import * as originals from "./originals.js";

// What a view needs: a scope, and whether of all namespaces.
const VIEWS = {
  compare: { module: compare, scopes: ["read"] },
  lookup: { module: lookup, scopes: ["read", "write"] },
  browse: { module: browse, scopes: ["read"] },
  index: { module: index, scopes: ["read"], all: true },
  nodes: { module: nodes, scopes: ["read"], all: true },
  jobs: { module: jobs, scopes: ["read"] },
  originals: { module: originals, scopes: ["read"] },
};
const POLL_MS = 3000;
const KEPT = "nearprint-token";

const at = (id) => document.getElementById(id);
const ALL = { name: null, scopes: ["read", "write", "admin"], namespaces: null,
  role: { kind: "alone", decides: true, decider: null, forwards: false }, limits: {} };

const session = {
  token: sessionStorage.getItem(KEPT),
  isReached: true,
  asking: null,
  reached(yes) {
    if (session.isReached === yes) return;
    session.isReached = yes;
    showBanner();
  },
  ask(problem) {
    // Who has said "not now" is asked again after the next click.
    if (session.declined) return Promise.resolve(false);
    session.asking ??= askForToken(problem).finally(() => { session.asking = null; });
    return session.asking;
  },
};
const api = createApi(session);
const built = new Map();
const inputs = [];
const distances = [];
const handed = {};
let me = ALL;
let halted = null;
let current = null;

const app = {
  api, session, tongue: "curl",
  get me() { return me; },
  get limits() { return me.limits; },
  can: (scope) => me.scopes.includes(scope),
  get reachesAll() { return me.namespaces === null; },
  // What to do first if a token for some namespaces needs the name of one.
  lacks: (input) => (app.reachesAll || input.value ? null : note(`Enter a namespace: this token reaches ${list(me.namespaces)}.`)),
  announce(text) { at("announcer").textContent = text; },
  heading: (title, lead) => h("div.heading", h("h1", title), h("p.lead", lead)),
  hand(view, value) { handed[view] = value; },
  handed(view) {
    const value = handed[view];
    delete handed[view];
    return value;
  },
  // Why nothing can be stored or removed here; null if it can.
  get refusesWrites() {
    if (!app.can("write")) return `${callerName()} does not have the scope write.`;
    const { kind, decides, forwards, decider } = me.role;
    if (kind === "follower" && !decides && !forwards) return `This service follows ${decider ?? "another one"} and takes no writes. Send them there, or start it with follow.forward = true.`;
    return null;
  },
  namespaceInput(onchange) {
    const input = h("input", { type: "text", autocomplete: "off", placeholder: "the default namespace", oninput: onchange });
    inputs.push(input);
    fitNamespace(input);
    return input;
  },
  distanceInput(onchange) {
    const input = h("input.narrow", { type: "number", min: 0, value: 3, required: true, oninput: onchange });
    distances.push(input);
    fitDistance(input);
    return input;
  },
  shareInput: (onchange) => h("input.narrow", { type: "number", min: 0, max: 1, step: "any", placeholder: "default", oninput: onchange }),
  submitKey(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit();
  },
  problemBox, runner,
  // Goes on as long as the view is shown and the page is seen; `trouble` shows what went wrong last.
  poll(ms, work) {
    let runs = 0;
    const trouble = h("div");
    const tried = (done) => done.then(() => put(trouble), (error) => {
      if (!(error instanceof Problem)) throw error;
      put(trouble, problemBox(error));
    });
    const round = async (mine) => {
      if (mine !== runs) return;
      if (!document.hidden) await tried(work());
      setTimeout(round, ms, mine);
    };
    return { trouble, tried, start: () => round(runs += 1), stop: () => { runs += 1; } };
  },
};

const hasScopes = () => `has the scope${me.scopes.length > 1 ? "s" : ""} ${list(me.scopes)}`;
const callerName = () => (me.name ? `The token \u201c${me.name}\u201d` : "This service");

function fitNamespace(input) {
  const known = (me.namespaces ?? []).filter((name) => !name.endsWith("*"));
  if (me.namespaces === null) return;
  input.placeholder = me.namespaces.join(", ");
  if (!input.value && known.length > 0) input.value = known[0];
}

function fitDistance(input) {
  input.max = me.limits.distance_max ?? 12;
  if (Number(input.value) > input.max) input.value = input.max;
}

// What helps against an error, beside what the service says.
function advice(problem) {
  if (problem.code === "scope_missing") return `${callerName()} ${hasScopes()}.`;
  if (problem.code === "namespace_not_allowed" && me.namespaces) return `${callerName()} reaches ${list(me.namespaces)}.`;
  return "";
}

function problemBox(problem) {
  const again = problem.status === 401 && button("Enter a token", () => session.ask(problem), "first");
  const help = advice(problem);
  return h("div.verdict.fault", { role: "alert" }, h("div", h("h2", problem.title || "The request failed"),
    h("p.wrap", problem.detail), help && h("p.wrap", help),
    problem.code && note(h("code", problem.code), problem.status ? ` \u00b7 ${problem.status}` : "", problem.field && ` \u00b7 ${problem.field}`), again));
}

// Runs one piece of work of a form at a time; a new one ends the one before.
function runner({ status, result, button }) {
  let running = null;
  return async (words, work) => {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    button.setAttribute("aria-busy", "true");
    status.textContent = words;
    try {
      await work({ signal: mine.signal, ...waiting(status) });
      if (running === mine) status.textContent = "";
    } catch (error) {
      if (running !== mine) return;
      if (!(error instanceof Problem)) throw error;
      status.textContent = "";
      put(result, problemBox(error));
      result.hidden = false;
    } finally {
      if (running === mine) button.removeAttribute("aria-busy");
    }
  };
}

const REASONS = {
  token_missing: "This service needs a token.",
  token_unknown: "The service does not know this token: it is mistyped, or it was withdrawn.",
};

// Resolves to whether there is a token that the service takes.
function askForToken(problem) {
  return new Promise((resolve) => {
    const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true });
    const why = h("p.wrap", { role: "status" }, reason(problem));
    const heading = newId("token");
    let ok = false;
    const dialog = h("dialog", { "aria-labelledby": heading, onclose: () => {
      dialog.remove();
      session.declined = !ok;
      resolve(ok);
    } }, h("form.stack", { onsubmit }, h("h2", { id: heading }, "Access"), why,
      field("Token", input, "Kept in this tab until it is closed. nearprint token makes one."),
      h("div.row.end", button("Not now", () => dialog.close(), "second"), h("button", { type: "submit" }, "Use it"))));
    async function onsubmit(event) {
      event.preventDefault();
      const before = session.token;
      session.token = input.value.trim();
      try {
        // No header can have other characters.
        if (/[^!-~]/.test(session.token)) throw new Problem({ code: "token_unknown" });
        await learn({ quiet: true });
        sessionStorage.setItem(KEPT, session.token);
        ok = true;
        dialog.close();
        render();
      } catch (error) {
        session.token = before;
        why.textContent = reason(error);
        input.select();
      }
    }
    document.body.append(dialog);
    dialog.showModal();
    input.focus();
  });
}

const reason = (problem) => REASONS[problem.code] ?? problem.detail ?? problem.message;

async function learn(options) {
  me = await api.get("/v1/me", {}, options);
  inputs.forEach(fitNamespace);
  distances.forEach(fitDistance);
  showFrame();
}

const isAllowed = ({ scopes, all }) => scopes.some(app.can) && (!all || app.reachesAll);

let drawn = "";
function showFrame() {
  const state = JSON.stringify([me, current, session.token]);
  if (state === drawn) return;
  drawn = state;
  put(at("views"), Object.entries(VIEWS).filter(([, view]) => isAllowed(view)).map(([name, { module }]) =>
    h("a", { href: `#/${name}`, "aria-current": current === name ? "page" : null }, module.title)));
  const { kind, decides, decider } = me.role;
  const role = kind === "alone" ? null : kind === "follower" ? "follower" : decides ? "leader" : "node";
  const leave = session.token && button("Forget the token", forget);
  put(at("caller"), role && h("span.pill", { title: decider ? `${kind === "follower" ? "follows" : "led by"} ${decider}` : null }, role),
    me.name && h("span.pill", { title: me.scopes.join(", ") }, me.name), leave);
  const link = (href, text) => (session.token ? null : h("a", { href }, text));
  put(at("about"), h("span", `nearprint ${me.version ?? ""}`), link("/openapi.json", "OpenAPI"), link("/metrics", "Metrics"));
  showBanner();
  for (const { view } of built.values()) view.allowed?.();
}

function forget() {
  sessionStorage.removeItem(KEPT);
  location.reload();
}

function showBanner() {
  const { kind, decides, decider } = me.role;
  let text = "";
  if (!session.isReached) text = `The service at ${location.host} does not answer. The console asks again by itself.`;
  else if (halted) text = `${halted.title}. ${halted.detail}`;
  else if (kind === "node" && !decides && !decider) text = "No node leads now. Look-ups go on; what is to be stored is sent again until one leads.";
  if (at("banner").textContent !== text) put(at("banner"), text && h("p.inner", text));
}

// The state of the service, without a token and whatever it may do.
async function look() {
  if (document.hidden) return;
  try {
    await learn({ quiet: true });
    if (me.role.kind === "alone") return;
    halted = await api.get("/readyz", {}, { quiet: true }).then(() => null, (problem) => (/halted/.test(problem.code) ? problem : null));
    showBanner();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 401) session.ask(error);
  }
}

let timer = null;
function schedule() {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    await look();
    schedule();
  }, POLL_MS);
}

function render() {
  const [name, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  if (location.hash === "#main") return;
  const [first] = Object.entries(VIEWS).find(([, view]) => isAllowed(view)) ?? [];
  const asked = Object.hasOwn(VIEWS, name) ? name : first;
  const view = VIEWS[asked];
  const before = built.get(current)?.view;
  if (current !== asked) before?.hide?.();
  const came = current !== null && current !== asked;
  current = asked;
  if (!view || !isAllowed(view)) {
    const why = view?.all && !app.reachesAll ? "all namespaces; the token reaches some only" : `the scope ${view?.scopes[0] ?? "read"}; ${callerName()} ${hasScopes()}`;
    show(h("div.view", app.heading(view?.module.title ?? "nearprint", `This view needs ${why}.`)));
  } else {
    if (!built.has(asked)) built.set(asked, { view: view.module.create(app) });
    const { view: shown } = built.get(asked);
    show(shown.element);
    shown.show?.(new URLSearchParams(query ?? ""));
    shown.refresh?.();
  }
  document.title = `${view?.module.title ?? "Console"} \u00b7 nearprint`;
  showFrame();
  if (came) at("main").focus({ preventScroll: true });
}

function show(element) {
  if (at("main").firstChild !== element) {
    put(at("main"), element);
    scrollTo(0, 0);
  }
}

window.addEventListener("hashchange", render);
document.addEventListener("click", () => { session.declined = false; }, true);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  at("main").focus();
});

const refused = await learn({ quiet: true }).catch((error) => error);
render();
schedule();
if (refused?.status === 401) session.ask(refused);
