// What differs between two texts, word by word: Myers' algorithm with bounds, so that two texts of a
// megabyte that have nothing in common cost no more than a moment. Nothing here touches the page.

// Scripts that put no space between words: each character is a word.
const DENSE = "[\\p{sc=Han}\\p{sc=Hiragana}\\p{sc=Katakana}\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmer}\\p{sc=Myanmar}]";
const WORD = new RegExp(`${DENSE}\\p{M}*|(?:(?!${DENSE})[\\p{L}\\p{M}\\p{N}])+|\\S`, "gu");
const LETTERS = /[\p{L}\p{M}\p{N}]+/gu;
const DIGIT = /\p{Nd}/u;

// After so many edits the best way so far is taken, and the search begins anew where it ends: the
// memory grows with the square of the number.
const EDITS_MAX = 1000;
// The steps that one comparison may take; what is left then is shown as replaced.
const STEPS_MAX = 12_000_000;

// The words and marks of a text with their places; white space does not count.
export function words(text) {
  const starts = [];
  const ends = [];
  for (const match of text.matchAll(WORD)) {
    starts.push(match.index);
    ends.push(match.index + match[0].length);
  }
  return { text, starts, ends, length: starts.length };
}

const at = (side, index) => side.text.slice(side.starts[index], side.ends[index]);

function numbered(a, b) {
  const numbers = new Map();
  const numberOf = (word) => {
    if (!numbers.has(word)) numbers.set(word, numbers.size);
    return numbers.get(word);
  };
  return [a, b].map((side) => Int32Array.from({ length: side.length }, (_, index) => numberOf(at(side, index))));
}

export const changedWords = (a, b) => changes(...numbered(a, b));

// The stretches that differ, in order: [start in a, end in a, start in b, end in b], in words.
export function changes(a, b, { steps = STEPS_MAX, edits = EDITS_MAX } = {}) {
  const out = [];
  const add = (change) => {
    const last = out.at(-1);
    if (last && last[1] === change[0] && last[3] === change[2]) [, last[1], , last[3]] = change;
    else out.push(change);
  };
  let [n, m] = [a.length, b.length];
  while (n > 0 && m > 0 && a[n - 1] === b[m - 1]) {
    n -= 1;
    m -= 1;
  }
  let [x, y] = [0, 0];
  while (x < n || y < m) {
    if (steps <= 0 || x === n || y === m) {
      add([x, n, y, m]);
      break;
    }
    const way = furthest(a.subarray(x, n), b.subarray(y, m), edits);
    for (const [p, q, r, s] of way.edits) add([x + p, x + q, y + r, y + s]);
    [x, y] = [x + way.x, y + way.y];
    steps -= way.steps;
  }
  return out;
}

// The fewest edits that lead to the end by Myers' greedy algorithm or, if they are more than `most`,
// those of the way that has come furthest.
function furthest(a, b, most) {
  const [n, m] = [a.length, b.length];
  const limit = Math.min(n + m, most);
  const reached = new Int32Array(2 * limit + 3);
  const trace = [];
  let steps = 0;
  let best = { x: 0, y: 0, d: 0 };
  for (let d = 0; d <= limit; d += 1) {
    trace.push(reached.slice(limit + 1 - d, limit + 2 + d));
    for (let k = -d; k <= d; k += 2) {
      const center = limit + 1 + k;
      const down = k === -d || (k !== d && reached[center - 1] < reached[center + 1]);
      let x = down ? reached[center + 1] : reached[center - 1] + 1;
      let y = x - k;
      steps += 1;
      while (x < n && y < m && a[x] === b[y]) {
        x += 1;
        y += 1;
        steps += 1;
      }
      reached[center] = x;
      if (x <= n && y <= m && x + y > best.x + best.y) best = { x, y, d };
      if (x >= n && y >= m) return { x: n, y: m, steps, edits: edits(trace, d, n, m) };
    }
  }
  return { ...best, steps, edits: edits(trace, best.d, best.x, best.y) };
}

// Walks the trace back from the end; trace[d] has the furthest points before step d, from k = -d.
function edits(trace, d, n, m) {
  const out = [];
  let [x, y] = [n, m];
  for (; d > 0; d -= 1) {
    const k = x - y;
    const reached = (diagonal) => trace[d][diagonal + d] ?? 0;
    const down = k === -d || (k !== d && reached(k - 1) < reached(k + 1));
    const fromX = down ? reached(k + 1) : reached(k - 1);
    const fromY = fromX - (down ? k + 1 : k - 1);
    out.push(down ? [fromX, fromX, fromY, fromY + 1] : [fromX, fromX + 1, fromY, fromY]);
    [x, y] = [fromX, fromY];
  }
  return out.reverse();
}

// Changes with the words around them; those that are near share a passage:
// { a: [start, end], b: [start, end], changes }.
export function passages(found, a, b, around = 12) {
  const out = [];
  for (const change of found) {
    const last = out.at(-1);
    const near = last && change[0] - last.changes.at(-1)[1] <= 2 * around;
    if (near) last.changes.push(change);
    else out.push({ changes: [change] });
  }
  for (const passage of out) {
    const [first, last] = [passage.changes[0], passage.changes.at(-1)];
    passage.a = [Math.max(0, first[0] - around), Math.min(a.length, last[1] + around)];
    passage.b = [Math.max(0, first[2] - around), Math.min(b.length, last[3] + around)];
  }
  return out;
}

// One side of a passage as [text, whether it differs], white space between words included. No piece
// has more words than `most`: of a longer one the middle is left out.
export function pieces(side, [start, end], changed, most = 300) {
  const out = [];
  const slice = (from, to) => side.text.slice(side.starts[from], side.ends[to - 1]);
  const push = (from, to, differs) => {
    if (from >= to) return;
    const gap = from > start ? side.text.slice(side.ends[from - 1], side.starts[from]) : "";
    if (gap) out.push([gap, false]);
    if (to - from <= most) {
      out.push([slice(from, to), differs]);
    } else {
      const half = most >> 1;
      const left = to - from - 2 * half;
      out.push([slice(from, from + half), differs], [` \u2026 ${left.toLocaleString("en")} words \u2026 `, null],
        [slice(to - half, to), differs]);
    }
  };
  let from = start;
  for (const [low, high] of changed) {
    push(from, low, false);
    push(low, high, true);
    from = high;
  }
  push(from, end, false);
  return out;
}

// The numbers of a text: words with a digit, together with those that follow without white space, such
// as 2.13 or 2026-11-29. A map from their words to how the number is written first.
export function numbers(text) {
  const found = new Map();
  let run = null;
  const end = () => {
    if (run && !found.has(run.key)) found.set(run.key, text.slice(run.start, run.end));
    run = null;
  };
  for (const match of text.matchAll(LETTERS)) {
    const [word] = match;
    if (!DIGIT.test(word)) {
      end();
      continue;
    }
    // A list of thousands of numbers is not one number.
    const goesOn = run && run.words < 8 && !/\s/.test(text.slice(run.end, match.index));
    if (!goesOn) end();
    run = goesOn ? { ...run, key: `${run.key} ${word}`, words: run.words + 1 } : { key: word, start: match.index, words: 1 };
    run.end = match.index + word.length;
  }
  end();
  return found;
}

const DROPPED = new Set(["script", "style", "template", "noscript", "head", "nav", "header", "footer", "aside", "form"]);
const BLOCKS = new Set(["p", "div", "br", "li", "h1", "h2", "h3", "h4", "h5", "h6", "tr", "td", "section", "article"]);
const NAMED = { amp: "&", lt: "<", gt: ">", quot: "\"", apos: "'", nbsp: " " };

// The text of a page that a reader sees, roughly as the service takes it: for showing what differs
// only. It reads each character a few times at most, whatever the page is.
export function visible(html) {
  const lower = html.toLowerCase();
  const out = [];
  const after = (found, length) => (found < 0 ? html.length : found + length);
  let at = 0;
  while (at < html.length) {
    const open = after(html.indexOf("<", at), 0);
    out.push(html.slice(at, open));
    const name = /^\/?[a-z][a-z0-9]*/.exec(lower.slice(open + 1, open + 12))?.[0];
    if (html.startsWith("<!--", open)) at = after(html.indexOf("-->", open + 4), 3);
    else if (name || /[!?/]/.test(html[open + 1] ?? "")) at = after(html.indexOf(">", open), 1);
    else {
      out.push(html.slice(open, open + 1));
      at = open + 1;
    }
    if (name && BLOCKS.has(name.replace("/", ""))) out.push("\n");
    if (DROPPED.has(name)) at = after(html.indexOf(">", after(lower.indexOf(`</${name}`, at), 0)), 1);
  }
  const decoded = out.join("").replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,5}));/gi, (all, decimal, hex, name) => {
    if (name) return NAMED[name.toLowerCase()] ?? all;
    const code = decimal ? Number(decimal) : parseInt(hex, 16);
    return code > 0 && code < 0x110000 ? String.fromCodePoint(code) : all;
  });
  return decoded.replace(/[^\S\n]+/g, " ").replace(/ ?\n[ \n]*/g, "\n").trim();
}
