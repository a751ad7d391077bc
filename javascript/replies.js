// What the replies of a service look like. The server at an address may not be nearprint: a proxy
// with its page, another service. A reply without the form of its operation is Foreign.
import { forms } from "./forms.js";

/** @typedef {import("./nearprint.js").Problem} Problem */
/** @typedef {import("./forms.js").Form} Form */

const JSON_TYPE = "application/json";
const LINES = "application/x-ndjson";

/** The distance of a fingerprint without a hit in a packed reply, and the largest one of a hit. */
const NO_HIT = 255;
const DISTANCE_MAX = 12;

/** The fields of every error of the service, at least those on which the clients rely. */
const PROBLEM = { status: "number", code: "string", detail: "string" };

/** What the service refuses, or that no service replies; `problem` has its `code`, `field`, `line`. */
export class NearprintError extends Error {
  /**
   * @param {Problem} problem
   * @param {ErrorOptions} [options]
   */
  constructor(problem, options) {
    super(`${problem.code}: ${problem.detail}`, options);
    this.name = "NearprintError";
    this.problem = problem;
  }
}

/** A reply that no nearprint service gives. */
export class Foreign extends Error {}

/**
 * An error that the client itself makes.
 *
 * @param {string} code
 * @param {string} detail
 * @param {number} status 0 without a reply
 * @returns {Problem}
 */
export function problem(code, detail, status = 0) {
  return { type: `urn:nearprint:problem:${code}`, title: code, status, code, detail };
}

/**
 * The problem document (RFC 9457) that a refusal consists of; undefined if it is something else.
 *
 * @param {Uint8Array} body
 * @returns {Problem | undefined}
 */
export function problemOf(body) {
  try {
    return problemIn(parsed(body));
  } catch (error) {
    if (error instanceof Foreign) return undefined;
    throw error;
  }
}

/**
 * Checks the reply to a request that is not a batch of lines.
 *
 * @param {string} operation such as `GET /v1/documents/{id}`
 * @param {string | null} contentType
 * @param {Uint8Array} body
 * @param {number} count how many packed fingerprints the request had
 */
export function checkReply(operation, contentType, body, count) {
  const media = checkMediaType(operation, contentType);
  if (media === JSON_TYPE) check(parsed(body), forms[operation]?.[media] ?? {});
  if (media === LINES) for (const line of linesOf(body, true)) lineOf(operation, line);
  const isPacked = media === "application/octet-stream" && operation.endsWith("/batch");
  if (isPacked) checkDistances(body, count);
}

/**
 * The value of a line of a batch: a reply, or an object with `error`.
 *
 * @param {string} operation
 * @param {Uint8Array} line
 */
export function lineOf(operation, line) {
  const value = parsed(line);
  if (kindOf(value) === "object" && "error" in value) {
    return { error: problemIn(value.error) };
  }
  return check(value, forms[operation]?.[LINES] ?? {});
}

/**
 * The lines of a body, the last only if it is whole.
 *
 * @param {Uint8Array} body
 * @param {boolean} whole
 */
export function linesOf(body, whole) {
  const lines = [];
  let start = 0;
  for (let end = body.indexOf(10); end >= 0; end = body.indexOf(10, start)) {
    lines.push(body.subarray(start, end));
    start = end + 1;
  }
  if (whole && start < body.length) lines.push(body.subarray(start));
  return lines;
}

/**
 * The media type of a reply, if the operation has it.
 *
 * @param {string} operation
 * @param {string | null} contentType
 */
export function checkMediaType(operation, contentType) {
  const media = (contentType ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
  const known = forms[operation];
  if (known !== undefined && !Object.hasOwn(known, media)) {
    const given = media === "" ? "without a Content-Type" : media;
    throw new Foreign(`its reply is ${given}, not ${Object.keys(known).join(" or ")}`);
  }
  return media;
}

/** @param {Uint8Array} body */
function parsed(body) {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch (error) {
    throw new Foreign(`its reply is not JSON: ${/** @type {Error} */ (error).message}`);
  }
}

/**
 * @param {any} value
 * @returns {Problem}
 */
function problemIn(value) {
  const found = /** @type {Problem} */ (check(value, PROBLEM));
  // The columns are those of JSON that the caller never saw.
  return { ...found, detail: found.detail.replace(/ \(column \d+\)$/, "") };
}

/**
 * @param {any} value
 * @param {Form} form
 */
function check(value, form) {
  if (kindOf(value) !== "object") throw new Foreign(`its reply is ${shown(value)}, not an object`);
  for (const [field, wanted] of Object.entries(form)) {
    const isThere = Object.hasOwn(value, field);
    const kinds = typeof wanted === "string" ? wanted.split("|") : ["array"];
    if (!isThere || !kinds.includes(kindOf(value[field]))) {
      const wrong = isThere ? `has ${shown(value[field])} as` : "lacks";
      throw new Foreign(`its reply ${wrong} '${field}'`);
    }
    if (typeof wanted !== "string") for (const item of value[field]) check(item, wanted[0]);
  }
  return value;
}

/**
 * @param {Uint8Array} body
 * @param {number} count
 */
function checkDistances(body, count) {
  if (body.length !== count) {
    throw new Foreign(`its reply has ${body.length} distances for ${count}`);
  }
  if (body.some((distance) => distance > DISTANCE_MAX && distance !== NO_HIT)) {
    throw new Foreign(`its reply has a distance above ${DISTANCE_MAX}`);
  }
}

/** @param {unknown} value */
function kindOf(value) {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

/** @param {unknown} value a value of JSON, in a few words */
function shown(value) {
  const kind = kindOf(value);
  if (kind === "object" || kind === "array") return kind === "object" ? "an object" : "a list";
  const text = JSON.stringify(value);
  return text.length <= 40 ? text : `${text.slice(0, 40)}...`;
}
