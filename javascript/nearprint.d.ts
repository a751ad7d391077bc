import type { Client } from "openapi-fetch";
import type { components, operations, paths } from "./schema.js";

export type { components, operations, paths };

type Schemas = components["schemas"];

/** An error, as every reply that is no success has it. */
export type Problem = Schemas["Problem"];

/** An error of the service; `problem` has its `code`, `field` and `line`. */
export class NearprintError extends Error {
  constructor(problem: Problem);
  readonly problem: Problem;
}

export interface Options {
  /** The address of the service; the default is `http://127.0.0.1:7878`. */
  url?: string | undefined;
  /** The token, if the service needs one. */
  token?: string | undefined;
  /** How often a request is sent again that gets 429 or 503; the default is 5. */
  retries?: number;
}

/**
 * A client of a service. A request that gets 429 or 503, and has changed nothing, is sent again after
 * the time in Retry-After.
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
 * reply to each, in their order. Throws {@link NearprintError} if a request is refused as a whole.
 */
export function batch<Path extends keyof Batches>(
  client: Client<paths>,
  path: Path,
  documents: Iterable<Batches[Path][0]> | AsyncIterable<Batches[Path][0]>,
  query?: paths[Path]["post"]["parameters"]["query"],
): AsyncGenerator<Line<Batches[Path][1]>, void, undefined>;
