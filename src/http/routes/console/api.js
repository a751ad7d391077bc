// Requests to this service. An error is a `Problem` with the words of the service.

// With these codes nothing was done, and the same request may succeed in a moment.
const LATER = new Set(["no_leader", "leader_unreachable", "primary_unreachable", "behind", "overloaded",
  "rate_limited", "no_answer"]);
const AGAIN_FOR_MS = 60_000;

export class Problem extends Error {
  constructor({ status = 0, code = "", title = "", detail = "", field = "" }, retryAfter = 1) {
    super(detail || title);
    Object.assign(this, { status, code, title, detail, field, retryAfter });
  }
}

const silent = () => new Problem({
  code: "no_answer",
  title: "The service does not answer",
  detail: "No reply came. The service may be stopping or restarting, or the connection was lost.",
});

async function problemOf(reply) {
  const text = await reply.text().catch(() => "");
  let body = {};
  try {
    body = JSON.parse(text) ?? {};
  } catch {
    // Something between the browser and the service may have written it.
    body = { detail: text.slice(0, 300) };
  }
  if (!body.title) body.title = `The reply has the status ${reply.status}`;
  return new Problem({ ...body, status: reply.status }, Number(reply.headers.get("retry-after")) || 1);
}

export function address(path, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value != null && value !== "");
  const parameters = new URLSearchParams(pairs).toString();
  return parameters ? `${path}?${parameters}` : path;
}

// `session` has the token, and is asked for another one after a 401.
export function createApi(session) {
  async function once(method, path, { query, json, body, type, signal }) {
    const headers = {};
    if (session.token) headers.authorization = `Bearer ${session.token}`;
    if (json !== undefined) headers["content-type"] = "application/json";
    if (type) headers["content-type"] = type;
    const sent = json === undefined ? body : JSON.stringify(json);
    let reply;
    try {
      reply = await fetch(address(path, query), { method, headers, body: sent, signal, cache: "no-store", credentials: "omit" });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw silent();
    }
    if (!reply.ok) throw await problemOf(reply);
    // A connection may end in the middle of a reply.
    return reply.json().catch(() => Promise.reject(silent()));
  }

  // `onwait(problem)` is called before each new attempt, if there may be any.
  async function send(method, path, options = {}) {
    const until = Date.now() + AGAIN_FOR_MS;
    for (;;) {
      const token = session.token;
      try {
        const reply = await once(method, path, options);
        session.reached(true);
        return reply;
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        session.reached(error.code !== "no_answer");
        if (error.status === 401 && !options.quiet) {
          // Another request may have brought a token meanwhile.
          if (session.token === token && !(await session.ask(error))) throw error;
          continue;
        }
        // Whether a write without an answer was done is not known.
        const mayRepeat = LATER.has(error.code) && (error.code !== "no_answer" || options.reads);
        if (!options.onwait || !mayRepeat || Date.now() > until) throw error;
        options.onwait(error);
        await pause(Math.min(error.retryAfter, 5) * 1000, options.signal);
      }
    }
  }

  return {
    get: (path, query, options) => send("GET", path, { query, reads: true, ...options }),
    post: (path, json, options) => send("POST", path, { json, ...options }),
    postRaw: (path, body, type, query, options) => send("POST", path, { body, type, query, ...options }),
    remove: (path, query, options) => send("DELETE", path, { query, ...options }),
  };
}

// Options that tell a person that a request is sent again.
export const waiting = (status) => ({ onwait: (problem) => { status.textContent = `${problem.title}. Trying again\u2026`; } });

export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    }, { once: true });
  });
}
