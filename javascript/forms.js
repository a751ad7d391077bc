// Made from the description of the API by make-forms.js: `npm run forms`.

/**
 * The fields of a reply that are never missing, with their types; a list in a page has the form of
 * its items.
 *
 * @typedef {{ [field: string]: string | [Form] }} Form
 */

/**
 * The form of each operation's replies, or of their lines, by media type.
 *
 * @type {{ [operation: string]: { [media: string]: Form } }}
 */
export const forms = {
  "GET /": {"text/html":{}},
  "GET /console/{file}": {"text/javascript":{},"text/css":{}},
  "GET /favicon.ico": {"image/svg+xml":{}},
  "GET /healthz": {"application/json":{"status":"string"}},
  "GET /metrics": {"text/plain":{}},
  "GET /openapi.json": {"application/json":{}},
  "GET /readyz": {"application/json":{"status":"string"}},
  "GET /readyz/reads": {"application/json":{"status":"string"}},
  "GET /readyz/writes": {"application/json":{"status":"string"}},
  "GET /v1/changes": {"application/octet-stream":{}},
  "POST /v1/check-and-insert": {"application/json":{"duplicate":"boolean","fingerprint":"string","hit_count":"number","hits":"array","outcome":"string","short":"boolean","stored":"boolean","truncated":"boolean"}},
  "POST /v1/check-and-insert/batch": {"application/x-ndjson":{"duplicate":"boolean","fingerprint":"string","hit_count":"number","hits":"array","outcome":"string","short":"boolean","stored":"boolean","truncated":"boolean"},"application/octet-stream":{}},
  "POST /v1/cluster/stand-back": {"application/json":{"for_ms":"number"}},
  "POST /v1/compare": {"application/json":{"a":"object","b":"object","distance":"number","duplicate":"boolean"}},
  "POST /v1/delete/batch": {"application/x-ndjson":{"removed":"number","stored":"boolean"}},
  "GET /v1/documents": {"application/json":{"documents":[{"fingerprint":"string","short":"boolean","stored_at_ms":"number","verifiable":"boolean"}],"next":"string|null"},"application/x-ndjson":{"fingerprint":"string","short":"boolean","stored_at_ms":"number","verifiable":"boolean"}},
  "GET /v1/documents/{id}": {"application/json":{"fingerprint":"string","short":"boolean","stored_at_ms":"number","verifiable":"boolean"}},
  "DELETE /v1/documents/{id}": {"application/json":{"removed":"number","stored":"boolean"}},
  "POST /v1/fingerprint": {"application/json":{"fingerprint":"string","recipe":"string","short":"boolean"}},
  "POST /v1/fingerprint/batch": {"application/x-ndjson":{"fingerprint":"string","recipe":"string","short":"boolean"}},
  "GET /v1/fingerprints/{hex}": {"application/json":{"documents":[{"fingerprint":"string","short":"boolean","stored_at_ms":"number","verifiable":"boolean"}],"fingerprint":"string","next":"string|null"}},
  "DELETE /v1/fingerprints/{hex}": {"application/json":{"removed":"number","stored":"boolean"}},
  "POST /v1/groups": {"application/json":{"begun_at_ms":"number","job":"string","kind":"string","state":"string"}},
  "GET /v1/groups/{job}": {"application/json":{"begun_at_ms":"number","job":"string","kind":"string","next":"string|null","state":"string"}},
  "GET /v1/groups/{job}/{group}": {"application/json":{"documents":[{"fingerprint":"string"}],"group":"number","next":"string|null","size":"number"}},
  "GET /v1/history": {"application/json":{"columns":"array","interval_ms":"number","rows":"array"}},
  "POST /v1/insert": {"application/json":{"fingerprint":"string","outcome":"string","short":"boolean","stored":"boolean"}},
  "POST /v1/insert/batch": {"application/x-ndjson":{"fingerprint":"string","outcome":"string","short":"boolean","stored":"boolean"},"application/json":{"inserted":"number","received":"number","stored":"boolean"}},
  "GET /v1/jobs": {"application/json":{"jobs":[{"begun_at_ms":"number","job":"string","kind":"string","state":"string"}],"next":"string|null"}},
  "GET /v1/jobs/{job}": {"application/json":{"begun_at_ms":"number","job":"string","kind":"string","state":"string"}},
  "DELETE /v1/jobs/{job}": {"application/json":{"begun_at_ms":"number","job":"string","kind":"string","state":"string"}},
  "GET /v1/me": {"application/json":{"limits":"object","role":"object","scopes":"array","version":"string"}},
  "GET /v1/namespaces": {"application/json":{"namespaces":[{"documents":"number","namespace":"string"}],"next":"string|null"}},
  "GET /v1/nodes": {"application/json":{"nodes":"array"}},
  "GET /v1/originals": {"application/json":{"next":"string|null","originals":[{"fingerprint":"string","short":"boolean","stored_at_ms":"number","verifiable":"boolean"}]}},
  "POST /v1/purge": {"application/json":{"begun_at_ms":"number","job":"string","kind":"string","state":"string"}},
  "GET /v1/query": {"application/json":{"duplicate":"boolean","fingerprint":"string","hit_count":"number","hits":"array","short":"boolean","truncated":"boolean"}},
  "POST /v1/query": {"application/json":{"duplicate":"boolean","fingerprint":"string","hit_count":"number","hits":"array","short":"boolean","truncated":"boolean"}},
  "POST /v1/query/batch": {"application/x-ndjson":{"duplicate":"boolean","fingerprint":"string","hit_count":"number","hits":"array","short":"boolean","truncated":"boolean"},"application/octet-stream":{}},
  "GET /v1/snapshots": {"application/json":{"snapshots":"array"}},
  "POST /v1/snapshots": {"application/json":{"bytes":"number","documents":"number","sequence":"number","taken_at_ms":"number"}},
  "GET /v1/snapshots/export": {"application/octet-stream":{}},
  "GET /v1/stats": {"application/json":{"documents":"number"}},
};
