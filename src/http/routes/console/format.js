// Numbers, sizes and times in words. Nothing here touches the page.

const NUMBER = new Intl.NumberFormat("en");
const ONE_DECIMAL = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const count = (value) => (value == null ? "\u2013" : NUMBER.format(value));

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function bytes(value) {
  if (value == null) return "\u2013";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${ONE_DECIMAL.format(value)} ${units[unit]}`;
}

// Rounded down, as the service rounds: 82.99 % is not 83 %.
export function percent(share) {
  if (share == null) return "\u2013";
  return `${ONE_DECIMAL.format(Math.floor(share * 1000 + 1e-9) / 10)} %`;
}

export function duration(ms) {
  if (ms == null) return "\u2013";
  if (ms < 1) return `${ONE_DECIMAL.format(ms * 1000)} \u00b5s`;
  if (ms < 1000) return `${ONE_DECIMAL.format(ms)} ms`;
  const steps = [[60, "s"], [60, "min"], [24, "h"], [Infinity, "d"]];
  let value = ms / 1000;
  for (const [most, unit] of steps) {
    if (value < most) return `${value < 10 ? ONE_DECIMAL.format(value) : count(Math.floor(value))} ${unit}`;
    value /= most;
  }
}

export function ago(ms, now = Date.now()) {
  const passed = now - ms;
  return passed < 1000 ? "now" : `${duration(passed)} ago`;
}

const two = (value) => String(value).padStart(2, "0");

// In the time zone of the reader.
export function time(ms) {
  const date = new Date(ms ?? NaN);
  if (Number.isNaN(date.getTime())) return "\u2013";
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export const clock = (ms) => time(ms).slice(11, 16);

// The 64 bits of a fingerprint, the most significant first.
export function bits(hex) {
  return [...hex].flatMap((digit) => [...parseInt(digit, 16).toString(2).padStart(4, "0")].map(Number));
}

// A text that is too long for a line: its beginning and its end.
export function shorten(text, most = 80) {
  const letters = [...text.slice(0, 5000)];
  if (letters.length <= most) return text;
  return `${letters.slice(0, most - 20).join("")}\u2026${letters.slice(-19).join("")}`;
}

export const word = (name) => name.replaceAll("_", " ");

export function list(items) {
  if (items.length < 2) return items.join("");
  return `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
}
