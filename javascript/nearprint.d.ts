import type { Client } from "openapi-fetch";
import type { components, operations, paths } from "./schema.js";

export type { components, operations, paths };

type Schemas = components["schemas"];

/** An error, as every reply that is no success has it. */
export type Problem = Schemas["Problem"];

/**
 * What the service refuses, or that no reply of it comes; `problem` has its `code`, `field` and
 * `line`. Codes of the client itself are `unreachable` (the `status` is 0), and `unknown` for an
 * error of another server.
 */
export class NearprintError extends Error {
  constructor(problem: Problem, options?: ErrorOptions);
  readonly problem: Problem;
}

export interface Options {
  /** The address of the service; the default is `http://127.0.0.1:7878`. */
  url?: string | undefined;
  /** The token, if the service needs one. */
  token?: string | undefined;
  /**
   * The seconds that one call may take, with the look-up of the host's name, all waiting and all
   * attempts; the default is 30. A call takes its own as an option of the same name.
   */
  timeout?: number | undefined;
  /** A longer reply is not taken; the default is 256 MiB. */
  replyBytesMax?: number | undefined;
}

/**
 * A client of a service. Every call ends within `timeout`: with a reply, with `error`, what the
 * service refuses, or by throwing {@link NearprintError} if no reply of nearprint comes. What was
 * refused for now or lost is sent again until then, if that is the same write: a document to store
 * that has no id gets one of its text.
 */
export function nearprint(options?: Options): Client<paths>;

/** What each batch takes, and what it replies. */
export interface Batches {
  "/v1/fingerprint/batch": [Schemas["FingerprintRequest"], Schemas["FingerprintReply"]];
  "/v1/query/batch": [Schemas["QueryRequest"], Schemas["QueryReply"]];
  "/v1/insert/batch": [Schemas["InsertRequest"], Schemas["InsertReply"]];
  "/v1/check-and-insert/batch": [
    Schemas["CheckAndInsertRequest"],
    Schemas["CheckAndInsertReply"],
  ];
  "/v1/delete/batch": [Schemas["NamedDocument"], Schemas["RemovedReply"]];
}

/** The reply to a document of a batch; `error` if it was refused. */
export type Line<Reply> = (Reply & { error?: undefined }) | { error: Problem };

/**
 * Sends documents as requests of at most 1,000 lines and 1 MiB, one after the other, and yields the
 * reply to each, in their order. Each request has the timeout. Throws {@link NearprintError} if a request is refused as a whole.
 */
export function batch<Path extends keyof Batches>(
  client: Client<paths>,
  path: Path,
  documents: Iterable<Batches[Path][0]> | AsyncIterable<Batches[Path][0]>,
  query?: paths[Path]["post"]["parameters"]["query"],
  options?: { timeout?: number | undefined },
): AsyncGenerator<Line<Batches[Path][1]>, void, undefined>;
