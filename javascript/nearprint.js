import createClient, { defaultPathSerializer } from "openapi-fetch";
import { setTimeout as sleep } from "node:timers/promises";

/** @typedef {import("./schema.js").components["schemas"]["Problem"]} Problem */

/** The most lines and bytes of a request of {@link batch}. */
const LINES_MAX = 1_000;
const BYTES_MAX = 1 << 20;

/** Errors that do not pass with time alone, or after which the request may have been carried out. */
const LASTING = ["follower", "outcome_unknown"];

/** An error of the service; `problem` has its `code`, `field` and `line`. */
export class NearprintError extends Error {
  /** @param {Problem} problem */
  constructor(problem) {
    super(`${problem.code}: ${problem.detail}`);
    this.name = "NearprintError";
    this.problem = problem;
  }
}

/**
 * A client of a service. A request that gets 429 or 503, and has changed nothing, is sent again after
 * the time in Retry-After, at most `retries` times.
 *
 * @type {typeof import("./nearprint.js").nearprint}
 */
export function nearprint({ url = "http://127.0.0.1:7878", token, retries = 5 } = {}) {
  return createClient({
    baseUrl: url,
    ...(token === undefined ? {} : { headers: { Authorization: `Bearer ${token}` } }),
    // The names of a list have commas between them.
    querySerializer: { array: { style: "form", explode: false } },
    pathSerializer: pathOf,
    fetch: (request) => retried(request, retries),
  });
}

/**
 * Sends documents as requests of at most 1,000 lines and 1 MiB, one after the other, and yields the
 * reply to each, in their order; `error` in place of a reply is that line's own.
 *
 * @type {typeof import("./nearprint.js").batch}
 */
export async function* batch(client, path, documents, query = {}) {
  for await (const body of bodies(documents)) {
    const { data, error } = await client.POST(path, {
      params: { query },
      headers: { "Content-Type": "application/x-ndjson" },
      body,
      bodySerializer: (lines) => lines,
      parseAs: "text",
    });
    if (error !== undefined) throw new NearprintError(error);
    for (const line of data.split("\n")) {
      if (line !== "") yield JSON.parse(line);
    }
  }
}

/**
 * A path with its parameters. `fetch` drops segments of dots, percent-encoded or not, and would
 * address another resource.
 *
 * @param {string} path
 * @param {Record<string, unknown>} parameters
 */
function pathOf(path, parameters) {
  for (const [name, value] of Object.entries(parameters)) {
    if (value === "." || value === "..") {
      throw new TypeError(`fetch normalises paths, so none can have the ${name} "${value}"`);
    }
  }
  return defaultPathSerializer(path, parameters);
}

/**
 * @param {Request} request
 * @param {number} retries
 */
async function retried(request, retries) {
  for (let tried = 0; ; tried += 1) {
    const response = await fetch(request.clone());
    const wait = response.headers.get("Retry-After");
    if (tried === retries || wait === null || ![429, 503].includes(response.status)) {
      return response;
    }
    if (LASTING.includes(await codeOf(response.clone()))) return response;
    await response.body?.cancel();
    await sleep(Number(wait) * 1_000);
  }
}

/**
 * The code of an error; a proxy has none.
 *
 * @param {Response} response
 * @returns {Promise<string>}
 */
async function codeOf(response) {
  try {
    return (await response.json()).code;
  } catch {
    return "";
  }
}

/**
 * Lines of JSON, as many as a request takes.
 *
 * @param {Iterable<unknown> | AsyncIterable<unknown>} documents
 */
async function* bodies(documents) {
  let [body, lines, bytes] = ["", 0, 0];
  for await (const document of documents) {
    const line = `${JSON.stringify(document)}\n`;
    const length = Buffer.byteLength(line);
    if (lines > 0 && (lines === LINES_MAX || bytes + length > BYTES_MAX)) {
      yield body;
      [body, lines, bytes] = ["", 0, 0];
    }
    [body, lines, bytes] = [body + line, lines + 1, bytes + length];
  }
  if (lines > 0) yield body;
}
