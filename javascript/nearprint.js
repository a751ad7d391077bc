import createClient, { defaultPathSerializer } from "openapi-fetch";
import { Exchange } from "./exchange.js";
import { NearprintError } from "./replies.js";

export { NearprintError };

/** The most lines and bytes of a request of {@link batch}. */
const LINES_MAX = 1_000;
const BYTES_MAX = 1 << 20;

/** The longest timeout of a call, in seconds; that of the Python client. */
const TIMEOUT_MAX_S = 7 * 86_400;

/** By default, a longer reply is not taken: 256 MiB. */
const REPLY_BYTES_MAX = 256 << 20;

/**
 * A client of a service. Every call ends within `timeout`, with a reply or with an error that names
 * the address; what was refused for now or lost is sent again until then, if that is the same write.
 *
 * @type {typeof import("./nearprint.js").nearprint}
 */
export function nearprint({
  url = "http://127.0.0.1:7878",
  token,
  timeout = 30,
  replyBytesMax = REPLY_BYTES_MAX,
} = {}) {
  if (!(replyBytesMax >= 1)) throw new RangeError("replyBytesMax must be at least 1");
  const settings = { address: addressOf(url), replyBytesMax, reached: false };
  const standard = checkedTimeout(timeout);
  const below = new URL(url).pathname.replace(/\/+$/, "").length;
  // Of a request that other middleware made anew.
  const named = (/** @type {Request} */ request) =>
    `${request.method} ${new URL(request.url).pathname.slice(below)}`;
  const client = createClient({
    baseUrl: url,
    headers: headersOf(token),
    // The names of a list have commas between them.
    querySerializer: { array: { style: "form", explode: false } },
    pathSerializer: pathOf,
    fetch: (request) => {
      // openapi-fetch leaves options that a Request does not have on it.
      const { timeout: own, operation = named(request), stream } = /** @type {any} */ (request);
      const seconds = own === undefined ? standard : checkedTimeout(own);
      return new Exchange(settings, request, operation, stream).run(seconds);
    },
  });
  client.use({
    onRequest({ request, schemaPath, options }) {
      const operation = `${request.method} ${schemaPath}`;
      Object.assign(request, { operation, stream: options.parseAs === "stream" });
    },
  });
  return client;
}

/**
 * Sends documents as requests of at most 1,000 lines and 1 MiB, one after the other, and yields the
 * reply to each, in their order; `error` in place of a reply is that line's own.
 *
 * @type {typeof import("./nearprint.js").batch}
 */
export async function* batch(client, path, documents, query = {}, options = {}) {
  for await (const body of bodies(documents)) {
    const { data, error } = await client.POST(path, {
      ...options,
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
 * The name of a service in errors; a URL that has something else than a service is refused.
 *
 * @param {string} url
 */
function addressOf(url) {
  const parts = URL.canParse(url) ? new URL(url) : undefined;
  if (parts === undefined || !["http:", "https:"].includes(parts.protocol)) {
    throw new TypeError(`url must be like http://127.0.0.1:7878, not ${JSON.stringify(url)}`);
  }
  if (parts.username !== "" || parts.password !== "") {
    throw new TypeError("url must not have a user or password; give the token as token");
  }
  if (parts.search !== "" || parts.hash !== "") {
    throw new TypeError(`url must end with a host, a port or a path, not as ${url} does`);
  }
  const port = parts.port || (parts.protocol === "https:" ? "443" : "80");
  return `${parts.protocol}//${parts.hostname}:${port}${parts.pathname.replace(/\/+$/, "")}`;
}

/** @param {string | undefined} token */
function headersOf(token) {
  // A reply is not compressed, so that its size is what was sent.
  const headers = { "Accept-Encoding": "identity", "User-Agent": "nearprint-javascript" };
  if (token === undefined) return headers;
  // fetch would show the token in its error.
  if (!/^[!-~]+$/.test(token)) throw new TypeError("token must consist of visible ASCII characters");
  return { ...headers, Authorization: `Bearer ${token}` };
}

/** @param {unknown} timeout */
function checkedTimeout(timeout) {
  if (typeof timeout !== "number" || !(timeout > 0 && timeout <= TIMEOUT_MAX_S)) {
    throw new RangeError(
      `timeout must be above 0 and at most ${TIMEOUT_MAX_S} seconds, not ${timeout}`,
    );
  }
  return timeout;
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
    if (value === "") throw new TypeError(`${name} must not be empty`);
    if (value === "." || value === "..") {
      throw new TypeError(
        `fetch normalises paths, so none can have the ${name} "${value}"; delete it in a batch`,
      );
    }
  }
  return defaultPathSerializer(path, parameters);
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
