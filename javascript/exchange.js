// One call: its attempts, until it has a reply or its time is up. The rules are those of the Python
// client (docs/clients.md).
import { setImmediate as turn, setTimeout as sleep } from "node:timers/promises";
import { Foreign, NearprintError, checkMediaType, checkReply } from "./replies.js";
import { lineOf, linesOf, problem, problemOf } from "./replies.js";

/** @typedef {import("./nearprint.js").Problem} Problem */
/** @typedef {{ address: string, replyBytesMax: number, reached: boolean }} Settings */
/**
 * A document of a request; `unnamed` if it had no id.
 * @typedef {{ text: string, number: number, unnamed: boolean, answer?: any }} Line
 */
/** @typedef {{ status: number, headers: Headers, body: Uint8Array, whole: boolean }} Reply */

const BUSY = [429, 503];
const GATEWAY = [502, 504];

/** The first wait where the service does not say how long; it doubles with each attempt. */
const BACKOFF_MS = 100;
const BACKOFF_MAX_MS = 2_000;

const WRITE = /^POST \/v1\/(insert|check-and-insert)(\/batch)?$/;

/** What fetch fails with before it has sent anything. */
const NOT_SENT =
  /^(ECONNREFUSED|ENOTFOUND|EAI_.*|E(HOST|NET)(UNREACH|DOWN)|EADDRNOTAVAIL|UND_ERR_CONNECT_.*)$/;
const NOT_TRUSTED =
  /^(CERT_.*|UNABLE_TO_.*|DEPTH_ZERO_.*|SELF_SIGNED_.*|ERR_TLS_CERT_.*|HOSTNAME_MISMATCH)$/;
const NOT_HTTP = /^(HPE_.*|UND_ERR_HEADERS_OVERFLOW|UND_ERR_RES_.*|UND_ERR_NOT_SUPPORTED)$/;
const NOT_TLS = /^(ERR_SSL_.*|ERR_TLS_.*|EPROTO)$/;

/** A connection that could not be made, or was lost before the head of the reply. */
class Lost extends Error {
  /**
   * @param {string} message
   * @param {{ sent: boolean, fatal?: boolean, late?: boolean, cause?: unknown }} facts
   */
  constructor(message, { sent, fatal = false, late = false, cause }) {
    super(message, { cause });
    this.sent = sent;
    this.fatal = fatal;
    // A timer may end a little before its time.
    this.late = late;
  }
}

export class Exchange {
  #attempts = 0;
  #began = performance.now();
  #deadline = 0;
  // Whether an attempt may have been carried out without a reply.
  #repeated = false;
  /** @type {Line[]} */
  #lines = [];
  #isBatch = false;
  #isRepeatable = true;
  /** @type {Buffer | undefined} */
  #body;

  /**
   * @param {Settings} settings those of the client
   * @param {Request} request
   * @param {string} operation its method and path, as in the description of the API
   * @param {boolean} stream whether the caller reads the body of the reply
   */
  constructor(settings, request, operation, stream) {
    this.settings = settings;
    this.request = request;
    this.operation = operation;
    this.stream = stream;
  }

  /**
   * The reply, within so many seconds.
   *
   * @param {number} seconds
   */
  async run(seconds) {
    this.#deadline = this.#began + seconds * 1_000;
    await this.#prepare();
    for (;;) {
      this.#attempts += 1;
      const reply = await this.#attempt();
      if (typeof reply !== "number") return reply;
      const { signal } = this.request;
      await sleep(reply, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }

  /** Reads the body of the request; a document to store gets an id, so that a retry is one write. */
  async #prepare() {
    if (this.request.body === null) return;
    this.#body = Buffer.from(await this.request.arrayBuffer());
    const media = this.request.headers.get("Content-Type")?.split(";", 1)[0]?.trim();
    const isWrite = WRITE.test(this.operation);
    this.#isBatch = media === "application/x-ndjson" && this.operation.endsWith("/batch");
    const isJson = media === "application/json";
    const hasId = new URL(this.request.url).searchParams.has("id");
    this.#isRepeatable = !isWrite || this.#isBatch || isJson || hasId;
    if (!this.#isBatch && !(isJson && isWrite && !hasId)) return;
    const texts = this.#isBatch ? this.#body.toString().split("\n") : [this.#body.toString()];
    for (const [index, text] of texts.entries()) {
      if (text.trim() === "") continue;
      const named = isWrite ? withId(text) : text;
      this.#lines.push({ text: named, number: index + 1, unnamed: named !== text });
    }
  }

  #pending() {
    return this.#lines.filter((line) => line.answer === undefined);
  }

  /** @returns {Promise<Response | number>} the reply, or the milliseconds until the next attempt */
  async #attempt() {
    try {
      const reply = await this.#exchange();
      this.settings.reached = true;
      return reply instanceof Response ? reply : this.#received(reply);
    } catch (error) {
      if (error instanceof Lost) return this.#lost(error);
      if (!(error instanceof Foreign)) throw error;
      const why = `${this.settings.address} does not answer as nearprint does: ${error.message}`;
      throw unreachable(`${why}. Is a nearprint service there?`, error);
    }
  }

  /** @returns {Promise<Reply | Response>} */
  async #exchange() {
    const { headers, method, signal, url } = this.request;
    const late = new AbortController();
    const expire = () => late.abort(new Lost("no reply in time", { sent: true, late: true }));
    const timer = setTimeout(expire, Math.max(0, this.#deadline - performance.now()));
    // In two turns of the event loop fetch sees what nobody asked for in an idle connection, and
    // drops it; it would be read as the reply to this request.
    await turn();
    await turn();
    try {
      const response = await fetch(url, {
        method,
        headers,
        body: this.#lines.length > 0 ? this.#text() : (this.#body ?? null),
        redirect: "manual",
        signal: AbortSignal.any([signal, late.signal]),
      });
      const coding = response.headers.get("Content-Encoding") ?? "identity";
      if (response.ok && coding !== "identity") throw new Foreign(`its reply is in ${coding}`);
      if (this.stream && response.ok) {
        checkMediaType(this.operation, response.headers.get("Content-Type"));
        return response;
      }
      return await this.#read(response, late.signal);
    } catch (error) {
      throw signal.aborted ? error : lostOf(error);
    } finally {
      clearTimeout(timer);
    }
  }

  #text() {
    const texts = this.#pending().map((line) => line.text);
    return this.#isBatch ? `${texts.join("\n")}\n` : (texts[0] ?? "");
  }

  /**
   * @param {Response} response
   * @param {AbortSignal} late
   * @returns {Promise<Reply>}
   */
  async #read(response, late) {
    const { status, headers } = response;
    const { address, replyBytesMax } = this.settings;
    const pieces = [];
    let [size, whole] = [0, true];
    try {
      for await (const piece of response.body ?? []) {
        size += piece.length;
        if (size > replyBytesMax) {
          throw unreachable(
            `${address}: the reply is longer than ${replyBytesMax} bytes, the replyBytesMax of ` +
              "this client. Ask for less, as with limit, or let the client take more. What was " +
              "sent may have been carried out",
          );
        }
        pieces.push(piece);
      }
    } catch (error) {
      if (error instanceof NearprintError || this.request.signal.aborted) throw error;
      if (late.aborted) throw late.reason;
      whole = false;
    }
    return { status, headers, body: Buffer.concat(pieces), whole };
  }

  /** @param {Reply} reply */
  #received(reply) {
    const { status, headers, body, whole } = reply;
    if (BUSY.includes(status)) return this.#busy(this.#refusal(reply), headers.get("Retry-After"));
    if (GATEWAY.includes(status)) {
      return this.#lost(new Lost(`a proxy replied ${status}`, { sent: true }));
    }
    const isGood = status >= 200 && status < 300;
    if (!whole && !(this.#isBatch && isGood)) {
      return this.#lost(new Lost("the reply broke off", { sent: true }));
    }
    if (!isGood) {
      const refusal = this.#refusal(reply);
      if (refusal.code === "unknown") throw new NearprintError(refusal);
      return Response.json(refusal, { status, headers: without(headers) });
    }
    if (this.#isBatch) return this.#receivedLines(reply);
    checkReply(this.operation, headers.get("Content-Type"), body, (this.#body?.length ?? 0) / 8);
    const [line] = this.#lines;
    const text = line?.unnamed ? this.#marked(line, JSON.parse(body.toString())) : undefined;
    const made = { status, headers: without(headers) };
    return new Response(text === undefined ? body : JSON.stringify(text), made);
  }

  /** @param {Reply} reply */
  #receivedLines({ status, headers, body, whole }) {
    checkMediaType(this.operation, headers.get("Content-Type"));
    const pending = this.#pending();
    const lines = linesOf(body, whole);
    // All are read before one is believed.
    const values = lines.map((line) => lineOf(this.operation, line));
    const refused = values.at(-1)?.error !== undefined;
    const isWhole = values.length === pending.length || refused || !whole;
    if (values.length > pending.length || !isWhole) {
      throw new Foreign(`its reply has ${lines.length} lines for ${pending.length} documents`);
    }
    /** @type {Problem | undefined} */
    let busy;
    for (const [index, value] of values.entries()) {
      const line = /** @type {Line} */ (pending[index]);
      const { error } = value;
      if (error !== undefined && (BUSY.includes(error.status) || error.code === "reply_not_read")) {
        busy = error;
      } else if (error !== undefined) {
        line.answer = { error: { ...error, line: line.number } };
      } else {
        line.answer = this.#marked(line, value);
      }
    }
    if (this.#pending().length === 0) {
      const answers = this.#lines.map((line) => `${JSON.stringify(line.answer)}\n`);
      return new Response(answers.join(""), { status, headers: without(headers) });
    }
    if (busy === undefined) return this.#lost(new Lost("the reply broke off", { sent: true }));
    this.#repeated = true;
    return this.#busy(busy, null);
  }

  /**
   * The reply to a document whose id is made of its text: that it is present already means that a
   * copy is, unless an attempt without a reply may have stored the document itself.
   *
   * @param {Line} line
   * @param {any} value
   */
  #marked(line, value) {
    const isCopy = line.unnamed && !this.#repeated && value.outcome === "already_present";
    return isCopy && "duplicate" in value ? { ...value, duplicate: true } : value;
  }

  /** @param {Lost} lost */
  #lost(lost) {
    const { address, reached } = this.settings;
    this.#repeated ||= lost.sent;
    const hasTimedOut = codeOf(lost.cause) === "UND_ERR_CONNECT_TIMEOUT";
    if (lost.fatal || !(reached || lost.sent || hasTimedOut)) {
      const hint = lost.fatal ? "" : "; does `nearprint serve` run there?";
      throw unreachable(`${address} cannot be reached: ${lost.message}${hint}`, lost);
    }
    if (lost.sent && !this.#isRepeatable) {
      throw unreachable(
        `${address} was lost before it replied (${lost.message}). The write may have been ` +
          "carried out; it was not repeated, because its documents have no ids",
        lost,
      );
    }
    const wait = this.#attempts === 1 ? 0 : backoff(this.#attempts - 2);
    if (lost.late || performance.now() + wait >= this.#deadline) {
      throw unreachable(`${address} cannot be reached: ${lost.message} (${this.#tried()})`, lost);
    }
    return wait;
  }

  /**
   * @param {Problem} refusal
   * @param {string | null} retryAfter
   */
  #busy(refusal, retryAfter) {
    const { status } = refusal;
    // It takes writes only once somebody has made it a primary.
    const isFinal = refusal.code === "follower";
    const isUnknown = refusal.code === "outcome_unknown";
    if (isFinal || (isUnknown && !this.#isRepeatable)) return Response.json(refusal, { status });
    this.#repeated ||= isUnknown;
    const told = milliseconds(retryAfter);
    const wait = told || backoff(this.#attempts - 1);
    if (performance.now() + wait < this.#deadline) return wait;
    const advice = told === undefined ? "" : `; it asks to try again in ${told / 1_000} s`;
    const detail =
      `${this.settings.address} is overloaded${advice} (${this.#tried()}). ` +
      `Its last reply: ${refusal.detail}`;
    return Response.json({ ...refusal, ...problem("overloaded", detail, status) }, { status });
  }

  #tried() {
    const attempts = `${this.#attempts} attempt${this.#attempts === 1 ? "" : "s"}`;
    return `${attempts} in ${((performance.now() - this.#began) / 1_000).toFixed(1)} s`;
  }

  /**
   * The error that a reply is; `unknown` if it is none of nearprint's.
   *
   * @param {Reply} reply
   */
  #refusal({ status, body }) {
    const { address } = this.settings;
    const found = problemOf(body);
    if (found === undefined || status > 599) {
      const text = body.subarray(0, 200).toString().trim();
      const detail = `${address} replied ${status}: ${text}. Is a nearprint service there?`;
      return problem("unknown", detail, status);
    }
    const hasAddress = ["token_missing", "token_unknown"].includes(found.code);
    return { ...found, status, detail: hasAddress ? `${address}: ${found.detail}` : found.detail };
  }
}

/**
 * A document of JSON with an id: a text without one is stored under an id that is made of it.
 *
 * @param {string} text
 */
function withId(text) {
  let fields;
  try {
    fields = JSON.parse(text);
  } catch {
    return text; // the service says what is wrong
  }
  if (fields === null || typeof fields !== "object" || Array.isArray(fields)) return text;
  if ((fields.id ?? null) !== null) return text;
  const hasText = (fields.text ?? null) !== null || (fields.html ?? null) !== null;
  const id = JSON.stringify({ from: hasText ? "text-hash" : "fingerprint" });
  if ("id" in fields) return JSON.stringify({ ...fields, id: JSON.parse(id) });
  // Numbers of more than 53 bits stay as they are.
  const rest = text.slice(text.indexOf("{") + 1);
  return `{"id":${id}${Object.keys(fields).length > 0 ? "," : ""}${rest}`;
}

/**
 * @param {string} detail
 * @param {unknown} [cause]
 */
function unreachable(detail, cause) {
  return new NearprintError(problem("unreachable", detail), { cause });
}

/**
 * What fetch fails with: a connection that was lost, or an error of the caller.
 *
 * @param {any} error
 */
function lostOf(error) {
  if (!(error instanceof TypeError) || error.cause === undefined) return error;
  const cause = /** @type {any} */ (error.cause);
  const code = codeOf(cause);
  // One for each address.
  /** @type {Error[]} */
  const several = cause.errors ?? [];
  const message = cause.message || several.map((one) => one.message).join(", ");
  if (NOT_TRUSTED.test(code)) {
    const hint = "name the certificate of its authority in NODE_EXTRA_CA_CERTS";
    const why = `its certificate is not trusted: ${message}; ${hint}`;
    return new Lost(why, { sent: false, fatal: true, cause });
  }
  if (NOT_TLS.test(code)) return new Lost(message, { sent: false, fatal: true, cause });
  if (NOT_HTTP.test(code)) {
    const why = `it does not speak HTTP: ${message}`;
    return new Lost(why, { sent: true, fatal: true, cause });
  }
  // Without a code it is a refusal of fetch itself, as of some ports.
  return new Lost(message, { sent: !NOT_SENT.test(code), fatal: code === "", cause });
}

/** @param {any} cause */
function codeOf(cause) {
  return String(cause?.code ?? cause?.errors?.[0]?.code ?? "");
}

/** @param {number} doublings */
function backoff(doublings) {
  // Not all at one time: what was refused together should not come back together.
  const most = Math.min(BACKOFF_MS * 2 ** Math.min(doublings, 10), BACKOFF_MAX_MS);
  return most * (0.5 + Math.random() / 2);
}

/**
 * The milliseconds of a Retry-After, which is a number or a date.
 *
 * @param {string | null} retryAfter
 */
export function milliseconds(retryAfter) {
  if (retryAfter === null) return undefined;
  if (/^\s*[+-]?\d+\s*$/.test(retryAfter)) {
    const seconds = Number(retryAfter);
    return Number.isFinite(seconds) ? Math.max(0, seconds * 1_000) : undefined;
  }
  const at = Date.parse(retryAfter);
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now());
}

/**
 * Headers of a reply without those of its body, which is another now.
 *
 * @param {Headers} headers
 */
function without(headers) {
  const kept = new Headers(headers);
  for (const name of ["Content-Length", "Transfer-Encoding", "Content-Encoding"]) kept.delete(name);
  return kept;
}
