// The same request for a shell and for Python. All but `requestPanel` is pure.

import { address } from "./api.js";
import { button, choice, h, put } from "./dom.js";

// What is longer is read from a file, so that the lines can be read.
const INLINE_MAX = 4000;

// As one word of a shell.
export const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

// As a literal of Python: the escapes of JSON are escapes of Python, too.
export function literal(value) {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null) return "None";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (value instanceof FromFile) return `Path(${literal(value.name)}).${value.bytes ? "read_bytes" : "read_text"}()`;
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([name, item]) => `${literal(name)}: ${literal(item)}`).join(", ")}}`;
  }
  return JSON.stringify(value).replaceAll("\x7f", "\\u007f");
}

// A text that the lines read from a file.
export class FromFile {
  constructor(name, bytes = false) {
    this.name = name;
    this.bytes = bytes;
  }
}

// The text itself, or the file to read it from if it is long.
export const inlined = (text, name) => (text.length > INLINE_MAX ? new FromFile(name) : text);

// A request: { method, path, query, json or file with type, needsToken }.
export function curl({ method = "GET", path, query, json, file, type, needsToken }, origin) {
  const words = [`curl -s ${quoted(origin + address(path, query))}`];
  if (method !== "GET" && json === undefined && !file) words.push(`-X ${method}`);
  if (needsToken) words.push("-H \"Authorization: Bearer $NEARPRINT_TOKEN\"");
  if (file) return [...words, `-H ${quoted(`Content-Type: ${type}`)}`, `--data-binary @${quoted(file)}`].join(" \\\n  ");
  if (json === undefined) return words.join(" \\\n  ");
  words.push("-H 'Content-Type: application/json'");
  const files = [];
  const text = JSON.stringify(json, (name, value) => {
    if (!(value instanceof FromFile)) return value;
    files.push(value.name);
    return `\u0000${files.length - 1}\u0000`;
  });
  if (files.length === 0) return [...words, `-d ${quoted(text)}`].join(" \\\n  ");
  // jq writes the texts of the files into the body.
  const names = files.map((name, at) => `--rawfile t${at} ${quoted(name)}`).join(" ");
  const filter = text.replace(/"\\u0000(\d+)\\u0000"/g, "$t$1");
  return `jq -n ${names} ${quoted(filter)} \\\n  | ${[...words, "-d @-"].join(" \\\n  ")}`;
}

const LISTS = new Set(["documents", "documents_of", "namespaces", "jobs", "originals"]);

// The call of the Python client that does the same: its name, and its arguments by place and by name.
function callOf({ path, query = {}, json, file, type }) {
  const [, , route, last] = path.split("/");
  // The client reads all pages.
  const { limit, ...named } = json ?? query;
  delete named.include;
  const looksUp = { ...named, limit };
  if (file) return ["query", type === "text/html" ? [] : [new FromFile(file)], { ...(type === "text/html" && { html: new FromFile(file, true) }), ...looksUp }];
  if (route === "query" || route === "check-and-insert") {
    const { text, ...rest } = looksUp;
    return [route.replaceAll("-", "_"), text === undefined ? [] : [text], rest];
  }
  if (route === "compare") {
    const { a, b, ...rest } = named;
    return ["compare", [a, b], rest];
  }
  if (last) return [route === "documents" ? "get" : "documents_of", [decodeURIComponent(last)], named];
  return [route, [], named];
}

export function python(request, origin) {
  if (request.path === "/v1/nodes") return "# The Python client has no call for it.";
  const [call, positional, named] = callOf(request);
  const { needsToken } = request;
  const pairs = Object.entries(named).filter(([, value]) => value != null && value !== "");
  const values = [...positional.map(literal), ...pairs.map(([name, value]) => `${name}=${literal(value)}`)];
  const inside = values.join(", ");
  const called = inside.length > 70 ? `client.${call}(\n        ${values.join(",\n        ")},\n    )` : `client.${call}(${inside})`;
  const usesFile = inside.includes("Path(");
  const imports = [needsToken && "import os", usesFile && "from pathlib import Path", (needsToken || usesFile) && "",
    "from nearprint import Client", ""].filter((line) => line !== false);
  const token = needsToken ? ", token=os.environ[\"NEARPRINT_TOKEN\"]" : "";
  const last = LISTS.has(call) ? `    for item in ${called}:\n        print(item)` : `    print(${called})`;
  return [...imports, `with Client(${literal(origin)}${token}) as client:`, last].join("\n");
}

// Shows both for the request that `describe` returns now. `refresh` is called when that changes.
export function requestPanel(app, describe) {
  const code = h("code");
  const block = h("pre.code", { tabindex: 0, role: "region", "aria-label": "The same request" }, code);
  const copy = button("Copy", copied);
  const tongue = choice("Language", [["curl", "curl"], ["python", "Python"]], app.tongue, (value) => {
    app.tongue = value;
    refresh();
  });
  const element = h("details.request", { open: window.matchMedia("(min-width: 70rem)").matches, ontoggle: refresh },
    h("summary", "The same request"), h("div.row", tongue.element, h("span.grow"), copy), block);

  async function copied() {
    refresh();
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      // Only pages of https and of localhost have a clipboard.
      getSelection().selectAllChildren(code);
      document.execCommand("copy");
    }
    copy.textContent = "Copied";
    app.announce("Copied");
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  }

  function refresh() {
    if (!element.open) return;
    tongue.value = app.tongue;
    const needsToken = Boolean(app.session.token);
    const text = (app.tongue === "curl" ? curl : python)({ ...describe(), needsToken }, location.origin);
    if (code.textContent !== text) put(code, text);
  }
  return { element, refresh };
}
