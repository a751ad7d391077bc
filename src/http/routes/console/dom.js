// Elements. Text goes in as text nodes only, whatever it contains.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "open", "readOnly", "required"]);

// h("p.note", { id: "x", onclick: f }, "text", node, [more], null); attributes may be left out.
export function h(spec, ...rest) {
  const attributes = rest[0]?.constructor === Object ? rest.shift() : {};
  return fill(document.createElement(spec.split(".")[0]), spec, attributes, rest);
}

export function svg(spec, attributes, ...children) {
  return fill(document.createElementNS(SVG, spec.split(".")[0]), spec, attributes, children);
}

export const note = (...children) => h("p.note", ...children);
export const card = (title, ...children) => h("section.card", h("h3", title), ...children);

export function button(label, onclick, kind = "small.second") {
  return h(`button.${kind}`, { type: "button", onclick }, label);
}

function fill(node, spec, attributes, children) {
  const names = spec.split(".").slice(1);
  if (names.length > 0) node.setAttribute("class", names.join(" "));
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...flat(children));
  return node;
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child != null && child !== false);
}

// Replaces what is in a node. What has the focus gives it to what takes its place, so that a view that
// is drawn anew every few seconds can be used with the keyboard.
export function put(node, ...children) {
  const places = [];
  let at = document.activeElement;
  for (; node.contains(at) && at !== node; at = at.parentElement) places.unshift([...at.parentElement.children].indexOf(at));
  node.replaceChildren(...flat(children));
  if (places.length > 0) places.reduce((parent, place) => parent?.children[place], node)?.focus({ preventScroll: true });
  return node;
}

let lastId = 0;
export const newId = (stem) => `${stem}-${lastId += 1}`;

// A label with its control, and perhaps a line of help.
export function field(label, control, help) {
  control.id ||= newId("field");
  const note = help && h("span.help", { id: `${control.id}-help` }, help);
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div.field", h("label", { for: control.id }, label), control, note);
}

// One of several, as radio buttons that look like one control.
export function choice(legend, options, chosen, onchange) {
  const name = newId("choice");
  const buttons = options.map(([value, label]) => h("label",
    h("input", { type: "radio", name, value, checked: value === chosen, onchange: () => onchange(value) }),
    h("span", label)));
  const element = h("fieldset.choice", h("legend.unseen", legend), buttons);
  const inputs = [...element.querySelectorAll("input")];
  return {
    element,
    get value() { return inputs.find((input) => input.checked).value; },
    set value(value) { for (const input of inputs) input.checked = input.value === value; },
  };
}

// A table in a region that scrolls by itself, so that the page never does.
export function table(caption, heads, rows) {
  const head = h("tr", heads.map((text) => h(isNumber(text) ? "th.number" : "th", { scope: "col" }, name(text))));
  const body = rows.map((cells) => h("tr", cells.map((cell, at) =>
    h(isNumber(heads[at]) ? "td.number" : "td", {}, cell))));
  return h("div.scroll", { tabindex: 0, role: "region", "aria-label": caption },
    h("table", h("caption.unseen", caption), h("thead", head), h("tbody", body)));
}

// A head that begins with # is one of numbers.
const isNumber = (text) => text.startsWith("#");
const name = (text) => text.replace(/^#/, "");

export function facts(pairs) {
  return h("dl.facts", pairs.filter(Boolean).map(([term, value]) =>
    h("div", h("dt", term), h("dd", value))));
}

// Asks before something that cannot be undone. Resolves to whether to go on.
export function question(title, text, action) {
  return new Promise((resolve) => {
    const heading = newId("question");
    const dialog = h("dialog", { "aria-labelledby": heading, onclose: () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    } },
    h("h2", { id: heading }, title), h("p.wrap", text),
    h("div.row.end",
      button("Cancel", () => dialog.close(), "second"),
      button(action, () => dialog.close("yes"), "danger")));
    document.body.append(dialog);
    dialog.showModal();
  });
}
