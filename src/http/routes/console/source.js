// What a person wants to have compared or looked up: a text, a page, a file, or what is stored.

import { choice, field, h, newId, put } from "./dom.js";
import { bytes } from "./format.js";
import { visible } from "./diff.js";
import { FromFile, inlined } from "./request.js";

const KINDS = [["text", "Text"], ["html", "Page"], ["file", "File"], ["id", "Id"], ["fingerprint", "Fingerprint"]];

// The list of a fingerprint's documents is read so far for the sketch of one of them.
const PAGES_MAX = 5;

const TYPED_MAX = 2_000_000;

// The text of a file, in the charset that its beginning names, else UTF-8, else windows-1252.
export function decode(buffer) {
  const head = new TextDecoder("latin1").decode(buffer.slice(0, 1024));
  const named = /<meta[^>]{0,200}charset\s*=\s*["']?\s*([\w-]+)/i.exec(head)?.[1];
  const mark = head.startsWith("\xff\xfe") ? "utf-16le" : head.startsWith("\xfe\xff") ? "utf-16be" : null;
  for (const [label, fatal] of [[mark ?? named ?? "utf-8", true], ["utf-8", true]]) {
    try {
      return new TextDecoder(label, { fatal }).decode(buffer);
    } catch {
      // The label is unknown, or the bytes are not in it.
    }
  }
  return new TextDecoder("windows-1252").decode(buffer);
}

export const isPage = (file) => /\.x?html?$/i.test(file.name) || /html/.test(file.type);

// The stored document with an id, with the sketch by which texts are compared, if it has one.
export async function stored(app, id, namespace, options) {
  const document = await app.api.get(`/v1/documents/${encodeURIComponent(id)}`, { namespace }, options);
  const found = { ...document, body: { fingerprint: document.fingerprint } };
  if (!document.verifiable) return found;
  Object.assign(found.body, await sketchOf(app, document.fingerprint, namespace, (other) => other.id === id, options));
  return found;
}

export async function sketchOf(app, fingerprint, namespace, isIt, options) {
  let after;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const query = { namespace, include: "sketch", limit: 100, after };
    const reply = await app.api.get(`/v1/fingerprints/${fingerprint}`, query, options);
    const found = reply.documents.find((document) => document.sketch && isIt(document));
    if (found) return { sketch: found.sketch, recipe: found.recipe };
    after = reply.next;
    if (!after) break;
  }
  return null;
}

// `namespace` is the control of the form that has one for everything.
export function createSource(app, { label, onchange, namespace, rows = 9 }) {
  const stem = newId("source");
  const typed = (kind, placeholder) => h("textarea", { rows, spellcheck: "false", placeholder, "aria-label": label, oninput: () => changed(kind) });
  const inputs = {
    text: typed("text", "Paste a text."),
    html: typed("html", "Paste the HTML of a page. Navigation, scripts and the like do not count."),
    id: h("input", { type: "text", autocomplete: "off", placeholder: "https://a.example/1", oninput: onchange }),
    namespace: namespace ?? app.namespaceInput(onchange),
    fingerprint: h("input.mono", { type: "text", autocomplete: "off", placeholder: "84201d55387e091a", oninput: onchange }),
  };
  inputs.html.classList.add("mono");
  let file = null;
  const picker = h("input.unseen", { type: "file", id: `${stem}-file`, onchange: () => take(picker.files[0]) });
  const chosen = h("p.chosen", { "aria-live": "polite" });
  const panels = {
    text: inputs.text,
    html: inputs.html,
    file: h("div.drop", picker, h("label.button.second", { for: picker.id }, "Choose a file"),
      h("span.help", "or drop one here"), chosen),
    id: h("div.stack", field("Id", inputs.id, "Of a stored document its fingerprint and sketch are known, not its text."),
      namespace ? null : field("Namespace", inputs.namespace)),
    fingerprint: field("Fingerprint", inputs.fingerprint, "16 hex digits"),
  };
  const kinds = choice(`${label}: what it is`, KINDS, "text", show);
  const element = h("div.source", {
    ondragover: (event) => event.preventDefault(),
    ondrop: (event) => {
      event.preventDefault();
      if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
      else if (event.dataTransfer.getData("text")) set("text", event.dataTransfer.getData("text"));
    },
  }, kinds.element, Object.values(panels));
  choose("text");

  function choose(kind) {
    kinds.value = kind;
    for (const [name, panel] of Object.entries(panels)) panel.hidden = name !== kind;
  }

  function show(kind) {
    choose(kind);
    onchange();
  }

  // A browser lays out a text box of many megabytes for minutes, so such a text becomes a file.
  function changed(kind) {
    const text = inputs[kind].value;
    if (text.length < TYPED_MAX) return onchange();
    inputs[kind].value = "";
    return take(new File([text], kind === "html" ? "pasted.html" : "pasted.txt"));
  }

  function take(taken) {
    if (!taken) return;
    file = taken;
    put(chosen, `${file.name} \u00b7 ${bytes(file.size)}`);
    show("file");
  }

  function set(kind, value, where) {
    inputs[kind].value = value;
    if (where !== undefined) inputs.namespace.value = where ?? "";
    show(kind);
  }

  const value = () => inputs[kinds.value].value.trim();

  // What is missing, or null.
  function missing() {
    if (kinds.value === "file" ? file : value()) return null;
    return { text: "Enter a document first.", control: kinds.value === "file" ? picker : inputs[kinds.value] };
  }

  // The document as it is sent, and its text if it is known here.
  async function read(options) {
    const kind = kinds.value;
    if (kind === "text") return { body: { text: inputs.text.value }, text: inputs.text.value };
    if (kind === "html") return { body: { html: inputs.html.value }, text: visible(inputs.html.value) };
    if (kind === "fingerprint") return { body: { fingerprint: value() }, text: null };
    if (kind === "id") {
      const document = await stored(app, inputs.id.value, inputs.namespace.value, options);
      return { body: document.body, text: null, id: inputs.id.value };
    }
    const text = decode(await file.arrayBuffer());
    const page = isPage(file);
    return { body: page ? { html: text } : { text }, text: page ? visible(text) : text, file };
  }

  // The same for the lines of curl and Python, without reading anything.
  function sketched(name) {
    const kind = kinds.value;
    if (kind === "text" || kind === "html") return { [kind]: inlined(inputs[kind].value, `${name}.${kind === "html" ? "html" : "txt"}`) };
    if (kind === "fingerprint") return { fingerprint: value() };
    if (kind === "file") {
      const of = file ?? { name: "document.txt", type: "" };
      return { [isPage(of) ? "html" : "text"]: new FromFile(of.name, isPage(of)) };
    }
    return null;
  }

  return {
    element, read, set, missing, sketched, take,
    get kind() { return kinds.value; },
    get file() { return file; },
    get id() { return inputs.id.value; },
    // What names a stored document in a comparison, if it is one.
    get named() {
      return kinds.value === "id" ? { id: inputs.id.value, namespace: inputs.namespace.value || undefined } : null;
    },
    // What a hand-over to another view takes.
    get given() {
      const kind = kinds.value;
      return kind === "file" ? { file } : { kind, text: inputs[kind].value, namespace: inputs.namespace.value };
    },
  };
}
