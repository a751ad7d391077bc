// The word diff against the longest common subsequence, computed the slow way.

import assert from "node:assert/strict";
import { test } from "node:test";

import { changedWords, changes, numbers, passages, pieces, visible, words } from "../../../src/http/routes/console/diff.js";

// A generator of numbers that gives the same ones in each run.
function random(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function commonLength(a, b) {
  let row = new Array(b.length + 1).fill(0);
  for (const x of a) {
    const next = [0];
    b.forEach((y, j) => next.push(x === y ? row[j] + 1 : Math.max(row[j + 1], next[j])));
    row = next;
  }
  return row[b.length];
}

// What lies between the changes is equal, and together they cover both sides in order.
function check(a, b, found) {
  let [x, y] = [0, 0];
  let equal = 0;
  for (const [a0, a1, b0, b1] of [...found, [a.length, a.length, b.length, b.length]]) {
    assert.ok(a0 >= x && a1 >= a0 && b0 >= y && b1 >= b0);
    assert.deepEqual([...a.slice(x, a0)], [...b.slice(y, b0)]);
    equal += a0 - x;
    [x, y] = [a1, b1];
  }
  assert.deepEqual([x, y], [a.length, b.length]);
  return equal;
}

test("the changes are as few as the longest common subsequence allows", () => {
  const draw = random(7);
  for (let round = 0; round < 3000; round += 1) {
    const letters = 1 + draw(6);
    const [a, b] = [draw(24), draw(24)].map((length) => Int32Array.from({ length }, () => draw(letters)));
    assert.equal(check(a, b, changes(a, b)), commonLength(a, b), `${a} | ${b}`);
  }
});

test("with bounds that are reached the changes still make one text of the other", () => {
  const draw = random(11);
  const kept = [0, 0, 0, 0];
  for (let round = 0; round < 1000; round += 1) {
    const a = Int32Array.from({ length: 60 }, () => draw(20));
    const b = [...a];
    for (let edit = draw(12); edit > 0; edit -= 1) b.splice(draw(b.length), draw(3), draw(20), draw(20));
    [{}, { edits: 4 }, { edits: 4, steps: 30 }, { edits: 1, steps: 30 }].forEach((limits, at) => {
      kept[at] += check(a, Int32Array.from(b), changes(a, Int32Array.from(b), limits));
    });
  }
  assert.deepEqual(kept, kept.toSorted((one, other) => other - one));
  assert.equal(new Set(kept).size, 4, `each bound is reached: ${kept}`);
});

test("two texts of a megabyte are compared, whether they agree nearly or not at all", () => {
  const draw = random(3);
  const word = () => Array.from({ length: 2 + draw(8) }, () => String.fromCharCode(97 + draw(26))).join("");
  const many = () => Array.from({ length: 160_000 }, word);
  const text = many();
  const edited = [...text];
  for (let edit = 0; edit < 3000; edit += 1) edited[draw(edited.length)] = "changed";
  const [a, b, c] = [text, edited, many()].map((list) => words(list.join(" ")));
  assert.ok(a.text.length > 1_000_000);
  const near = changedWords(a, b);
  assert.ok(near.reduce((sum, [low, high]) => sum + high - low, 0) <= 3000);
  assert.ok(near.length > 2500);
  assert.ok(changedWords(a, c).length > 0);
});

test("words of each script are told apart, and white space does not count", () => {
  const list = (text) => {
    const { starts, ends } = words(text);
    return starts.map((start, at) => text.slice(start, ends[at]));
  };
  assert.deepEqual(list("The  cat's\n2.13"), ["The", "cat", "'", "s", "2", ".", "13"]);
  assert.deepEqual(list("\u6f22\u5b57ok"), ["\u6f22", "\u5b57", "ok"]);
  assert.deepEqual(list("ok\u6f22"), ["ok", "\u6f22"]);
  assert.equal(list("caf\u0065\u0301 \ud83d\ude00").length, 2);
  assert.deepEqual(changedWords(words("a b\nc"), words(" a  b c ")), []);
});

test("a passage has the words around its changes, and its pieces are its text", () => {
  const [a, b] = ["one two three four five six seven", "one two 3 four five six 7"].map(words);
  const found = changedWords(a, b);
  assert.deepEqual(found, [[2, 3, 2, 3], [6, 7, 6, 7]]);
  assert.equal(passages(found, a, b, 1).length, 2);
  const [whole] = passages(found, a, b, 3);
  assert.deepEqual([whole.a, whole.b], [[0, 7], [0, 7]]);
  const shown = pieces(b, whole.b, whole.changes.map((change) => change.slice(2)));
  assert.equal(shown.map(([text]) => text).join(""), b.text);
  assert.deepEqual(shown.filter(([, differs]) => differs).map(([text]) => text), ["3", "7"]);
});

test("of a long piece the middle is left out, with the number of its words", () => {
  const side = words(Array.from({ length: 50 }, (_, at) => `w${at}`).join(" "));
  const shown = pieces(side, [0, 50], [[0, 50]], 10);
  assert.deepEqual(shown, [["w0 w1 w2 w3 w4", true], [" \u2026 40 words \u2026 ", null], ["w45 w46 w47 w48 w49", true]]);
});

test("numbers that follow each other without white space are one number", () => {
  assert.deepEqual([...numbers("On 2.13 and 13.2, v7b: 4").values()], ["2.13", "13.2", "v7b", "4"]);
  assert.deepEqual([...numbers("\u0664\u0662 none").values()], ["\u0664\u0662"]);
  assert.equal(numbers("no digits").size, 0);
});

test("of a page the visible text is compared, and a page without an end costs no more", () => {
  const page = "<head><title>t</title></head><nav>menu</nav><h1>A &amp; B</h1><p>one<br>two<script>x()</script> &#x41;&#66;";
  assert.equal(visible(page), "A & B\none\ntwo AB");
  for (const open of ["<p", "<!--", "<script>", "<nav", "&#"]) assert.ok(visible(open.repeat(100_000)) !== null);
});
