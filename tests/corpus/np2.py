"""The recipe np2 as docs/recipe-np2.md defines it, in plain Python: the oracle of the test vectors.

    pip install xxhash
    python3 tests/corpus/np2.py tests/corpus/*.txt > tests/corpus/fingerprints.tsv
    python3 tests/corpus/np2.py --explain 'Tea, tea!'

Shares nothing with the implementation. Python's Unicode tables may be older than Unicode 17; no text
of the corpus has a character in which they differ.
"""

import collections
import pathlib
import re
import sys
import unicodedata

import xxhash

WHITE_SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
INVISIBLE = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
KANA = "\u3040-\u30ff"
OTHER_THAN_HANGUL = KANA + (
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f\U00030000-\U000323af"
)
CJK = OTHER_THAN_HANGUL + "\uac00-\ud7af"
INNER_SPACE = re.compile(f"(?<=[{OTHER_THAN_HANGUL}])[{WHITE_SPACE}]+(?=[{OTHER_THAN_HANGUL}])")
MASK = (1 << 64) - 1
P = 0x9E3779B97F4A7C15


def h(text):
    return xxhash.xxh3_64_intdigest(text.encode())


def runs(text):
    """Pairs of a kind and a run: "cjk" or "word"."""
    text = INVISIBLE.sub("", unicodedata.normalize("NFKC", text).casefold())
    text = INNER_SPACE.sub("", text)

    def kind(character):
        if re.match(f"[{CJK}]", character):
            return "cjk"
        return "word" if unicodedata.category(character)[0] in "LNM" else None

    found, before = [], None
    for character in text:
        now = kind(character)
        if now and now == before:
            found[-1][1] += character
        elif now:
            found.append([now, character])
        before = now
    marks_alone = lambda run: all(unicodedata.category(character)[0] == "M" for character in run)
    return [(kind, run) for kind, run in found if kind == "cjk" or not marks_alone(run)]


def features(runs, window):
    """Single characters and all other features, each in the order of the text."""
    single, other, words = [], [], []

    def end_segment():
        segment = " ".join(words)
        if segment:
            other.extend(segment[at:at + window] for at in range(max(1, len(segment) - window + 1)))
        words.clear()

    for kind, run in runs:
        if kind == "word":
            words.append(run)
            continue
        end_segment()
        single.extend(character for character in run if not re.match(f"[{KANA}]", character))
        other.extend(one + next for one, next in zip(run, run[1:]))
        if re.fullmatch(f"[{KANA}]", run):
            other.append(run)
    end_segment()
    return single, other


def weights(lists):
    """The weight of each feature: a counter for each upper 16 bits of the hash counts up to 8."""
    weights = collections.Counter()
    for features in lists:
        counters = collections.Counter()
        for feature in features:
            weights[feature] += counters[h(feature) >> 48] < 8
            counters[h(feature) >> 48] += 1
    return weights


def sums(weights):
    signed = lambda bit: sum(w if h(f) >> bit & 1 else -w for f, w in weights.items())
    return [signed(bit) for bit in range(64)]


def fingerprint(text, window=4):
    bits = sums(weights(features(runs(text), window)))
    return sum((sum_ > 0) << bit for bit, sum_ in enumerate(bits))


def tokens(runs):
    return [token for kind, run in runs for token in ([run] if kind == "word" else run)]


def mix(x):
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & MASK
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & MASK
    return x ^ x >> 33


def elements(tokens):
    """For each shingle S, c and E."""
    hashes = [h(token) for token in tokens]
    shingles = [mix((one * P + next) & MASK) for one, next in zip(hashes, hashes[1:])]
    if len(hashes) == 1:
        shingles = [mix(hashes[0])]
    seen = collections.Counter()
    for shingle in shingles:
        yield shingle, seen[shingle], mix((shingle + seen[shingle] * P) & MASK)
        seen[shingle] += 1


def numbers(tokens):
    """The elements of the tokens with a digit; after another such token, of the pair."""
    is_number = lambda token: any(unicodedata.category(character) == "Nd" for character in token)
    for before, token in zip([""] + tokens, tokens):
        if is_number(token):
            yield mix(mix((h(before) * P + h(token)) & MASK) if is_number(before) else h(token))


def least_values(elements, bits):
    """The least value of each bin that has one."""
    least = {}
    for element in elements:
        bin_, value = element >> 64 - bits, min(element & 0xFFFFFFFF, 0xFFFFFFFE)
        least[bin_] = min(value, least.get(bin_, value))
    return least


def labels(least):
    wide = [min((v for b, v in least.items() if b >> 5 == bin_), default=None) for bin_ in range(16)]

    def minimum(bin_):
        borrowed = (wide[(bin_ + further) % 16] for further in range(16))
        return next(value for value in borrowed if value is not None)

    for first in (0, 4, 8, 12):
        one, two, three = (minimum(first + at) for at in range(3))
        yield (one & 0xFFFF) << 24 | (two & 0xFFFF) << 8 | three & 0xFF


def sketch(tokens):
    least = least_values((element for _, _, element in elements(tokens)), 9)
    codes = [1 + least[b] % 3 if b in least else 0 for b in range(512)]
    plane = lambda bit: sum((code >> bit & 1) << b for b, code in enumerate(codes)).to_bytes(64, "little")
    own = least_values(numbers(tokens), 4)
    digits = sum((1 + value % 15) << 4 * bin_ for bin_, value in own.items())
    all_labels = b"".join(label.to_bytes(5, "little") for label in labels(least))
    return (plane(0) + plane(1) + all_labels + digits.to_bytes(8, "little")).hex()


def row(text):
    found = runs(text)
    kinds, words = features(found, 4), tokens(found)
    distinct = len(set(kinds[0]) | set(kinds[1]))
    short = str(len(words) < 10).lower()
    return f"{fingerprint(text):016x}\t{distinct}\t{len(words)}\t{short}\t{sketch(words)}"


def explain(text):
    found = runs(text)
    print(found)
    counted = weights(features(found, 4))
    for feature, weight in counted.items():
        print(f"{feature!r} {feature.encode().hex()} {weight} {h(feature):016x}")
    print(*sums(counted))
    print(f"{fingerprint(text):016x}")
    for token in tokens(found):
        print(f"token {token!r} {h(token):016x}")
    for shingle, earlier, element in elements(tokens(found)):
        value = min(element & 0xFFFFFFFF, 0xFFFFFFFE)
        print(f"{shingle:016x} {earlier} {element:016x} {element >> 55} {value} {1 + value % 3}")
    for element in numbers(tokens(found)):
        value = min(element & 0xFFFFFFFF, 0xFFFFFFFE)
        print(f"number {element:016x} {element >> 60} {value} {1 + value % 15}")
    print(sketch(tokens(found)))


if __name__ == "__main__":
    if sys.argv[1] == "--explain":
        explain(sys.argv[2])
    else:
        print("name\tfingerprint\tfeatures\ttokens\tshort\tsketch")
        for path in sorted(map(pathlib.Path, sys.argv[1:]), key=lambda path: path.stem):
            print(f"{path.stem}\t{row(path.read_bytes().decode())}")
