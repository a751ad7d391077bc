// Makes forms.js from the description of the service at NEARPRINT_URL: `npm run forms`.
import { writeFileSync } from "node:fs";
import { argv, env, exit } from "node:process";
import { fileURLToPath } from "node:url";

/**
 * The source of forms.js.
 *
 * @param {any} description what /openapi.json has
 */
export function formsOf(description) {
  const { schemas } = description.components;

  /** @param {any} schema @returns {any} */
  const resolved = (schema) => {
    const named = schema.$ref ? schemas[schema.$ref.split("/").at(-1)] : schema;
    if (named.allOf === undefined) return named;
    const parts = named.allOf.map(resolved);
    return {
      type: "object",
      required: parts.flatMap((/** @type {any} */ part) => part.required ?? []),
      properties: Object.assign({}, ...parts.map((/** @type {any} */ part) => part.properties)),
    };
  };

  /** @param {any} schema @returns {Record<string, any>} */
  const form = (schema) => {
    const { required = [], properties = {}, oneOf } = resolved(schema);
    if (oneOf !== undefined) {
      const [first, ...others] = oneOf.map(form);
      const common = (/** @type {[string, any]} */ [field, kind]) =>
        others.every((/** @type {any} */ other) => other[field] === kind);
      return Object.fromEntries(Object.entries(first).filter(common));
    }
    const isPage = "next" in properties;
    return Object.fromEntries(
      [...required].sort().map((field) => [field, kinds(properties[field], isPage)]),
    );
  };

  /** @param {any} schema @param {boolean} isPage */
  const kinds = (schema, isPage) => {
    const { type, oneOf, items } = resolved(schema);
    if (type === "array" && isPage) return [form(items)];
    const types = type ?? oneOf.map((/** @type {any} */ one) => resolved(one).type);
    const names = [types].flat().map((name) => (name === "integer" ? "number" : name));
    return [...new Set(names)].join("|");
  };

  /** @param {string} media @param {any} schema */
  const formOf = (media, schema) => {
    if (media === "application/json") return form(schema);
    // Only the words of the description name what the lines are.
    const line = resolved(schema).description?.match(/Lines of JSON, each an? `(\w+)`/)?.[1];
    return media === "application/x-ndjson" ? form(schemas[line]) : {};
  };

  /** @type {Record<string, any>} */
  const forms = {};
  /** @type {[string, any][]} */
  const paths = Object.entries(description.paths);
  for (const [path, operations] of paths) {
    /** @type {[string, any][]} */
    const methods = Object.entries(operations);
    for (const [method, operation] of methods) {
      /** @type {[string, any][]} */
      const replies = Object.entries(operation.responses);
      const good = replies.filter(([status]) => status.startsWith("2"));
      /** @type {[string, any][]} */
      const contents = good.flatMap(([, { content }]) => Object.entries(content));
      forms[`${method.toUpperCase()} ${path}`] = Object.fromEntries(
        contents.map(([media, { schema }]) => [media, formOf(media, schema)]),
      );
    }
  }
  const lines = Object.entries(forms).map(
    ([name, form]) => `  ${JSON.stringify(name)}: ${JSON.stringify(form)},\n`,
  );
  return `// Made from the description of the API by make-forms.js: \`npm run forms\`.

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
${lines.join("")}};
`;
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  const url = env["NEARPRINT_URL"];
  try {
    const description = await (await fetch(`${url}/openapi.json`)).json();
    writeFileSync(new URL("forms.js", import.meta.url), formsOf(description));
  } catch (error) {
    const why = `forms.js cannot be made from the service at NEARPRINT_URL='${url}'`;
    console.error(`error: ${why}: ${error}`);
    console.error("  next: start one for this command: ../tools/with-service npm run forms");
    exit(1);
  }
}
