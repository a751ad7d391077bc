"""How precise near-duplicates are among pages that one generator made from one template.

The pages are those of rustdoc and mdBook (the documentation of the Rust toolchains that are installed), of
Sphinx (its own documentation, from PyPI) and of Javadoc (a part of the JDK, if its sources are installed), each
in two versions, or in one and an edited copy of it. A tree parser takes the content of each page, by itself
and not through nearprint; two pages are a true pair if their words agree in 90 %, and a false one if in less
than 75 %. The release binary finds the pairs. Writes the section "Pages of generators" of docs/quality.md.
"""

import datetime
import hashlib
import itertools
import os
import pathlib
import random
import re
import subprocess
import sys
import tarfile
import zipfile

import lxml.html
import numpy
from rapidfuzz.distance import LCSseq

import served
from served import BINARY

WORK = pathlib.Path("target/quality/pages")
PAGE = pathlib.Path("docs/quality.md")
HEADING, NEXT = "## Pages of generators\n", "## Vectors\n"
EXTRACTS = ("content", "visible", "main")
DISTANCES = (3, 6)
PAGES_A_VERSION = int(os.environ.get("PAGES_A_VERSION", "400"))
SPHINX = ("7.4.7", "8.2.3")
JAVA = ("java/time", "java/util", "java/net")
BOOKS = "book cargo reference nomicon rustc rustdoc clippy edition-guide rust-by-example style-guide unstable-book"
TRUE, FALSE = 0.90, 0.75


def toolchains():
    """The folders with the documentation of Rust of two different versions, if there are as many."""
    home = pathlib.Path(os.environ.get("RUSTUP_HOME", pathlib.Path.home() / ".rustup"))
    versions = {}
    for folder in sorted(home.glob("toolchains/*/share/doc/rust/html")):
        rustc = folder.parents[3] / "bin/rustc"
        version = subprocess.run([rustc, "--version"], stdout=subprocess.PIPE, text=True, check=True)
        versions.setdefault(version.stdout.split()[1], folder)
    return dict(sorted(versions.items())[:2])


def sample(folder, paths):
    """The same pages of each version: those whose path has a small hash."""
    key = lambda path: hashlib.sha256(str(path.relative_to(folder)).encode()).digest()  # noqa: E731
    chosen = sorted(paths, key=key)[:PAGES_A_VERSION]
    return {str(path.relative_to(folder)): path.read_text(encoding="utf8") for path in sorted(chosen)}


def rustdoc():
    for version, folder in toolchains().items():
        paths = itertools.chain(folder.glob("std/*/*.html"), folder.glob("alloc/*/*.html"))
        yield version, sample(folder, (path for path in paths if "arch" not in path.parts))


def mdbook():
    for version, folder in toolchains().items():
        paths = itertools.chain.from_iterable((folder / book).rglob("*.html") for book in BOOKS.split())
        yield version, sample(folder, (path for path in paths if path.name not in ("print.html", "toc.html", "404.html")))


def sphinx():
    """The documentation of Sphinx in two versions, built by the Sphinx of this environment."""
    for version in SPHINX:
        out = WORK / f"sphinx-html-{version}"
        if not (out / "index.html").is_file():
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
            archive, source = WORK / f"sphinx-{version}.tar.gz", WORK / f"sphinx-{version}/doc"
            if not archive.is_file():
                subprocess.run([*pip, "--dest", str(WORK), f"sphinx=={version}"], check=True)
            with tarfile.open(archive) as files:
                files.extractall(WORK, filter="data")
            # Without its own configuration, which needs a Sphinx of the same version.
            build = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-C", "-D", "html_theme=alabaster"]
            subprocess.run([*build, str(source), str(out)], check=True, stderr=subprocess.DEVNULL)
        yield version, sample(out, (path for path in out.rglob("*.html") if "_modules" not in path.parts))


def javadoc():
    """The documentation of some packages of the JDK, by its own Javadoc."""
    for archive in sorted(pathlib.Path("/usr/lib/jvm").glob("*/lib/src.zip")):
        home = archive.parents[1]
        source, out = WORK / "java" / home.name, WORK / "javadoc" / home.name
        if not (out / "index.html").is_file():
            with zipfile.ZipFile(archive) as files:
                wanted = tuple(f"java.base/{package}/" for package in JAVA)
                files.extractall(source, [name for name in files.namelist() if name.startswith(wanted)])
            packages = [package.replace("/", ".") for package in JAVA]
            command = [home / "bin/javadoc", "-quiet", "-Xdoclint:none", "-d", out]
            command += ["--patch-module", f"java.base={source}/java.base"]
            command += ["-sourcepath", f"{source}/java.base", *packages]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        yield home.name, sample(out, out.glob("java.base/java/**/*.html"))
        return


GENERATORS = {"rustdoc": rustdoc, "mdBook": mdbook, "Sphinx": sphinx, "Javadoc": javadoc}


def edited(path, page):
    """A copy with one word in about fifty of its paragraphs replaced."""
    draw = random.Random(path)

    def paragraph(match):
        words = re.sub(r"(?<=[ >])[a-z]{4,}(?=[ .,])", lambda m: m[0] if draw.random() > 0.02 else "edited", match[0])
        return words

    return re.sub(r"(?s)<(p|div class=.block.)\b.*?</", paragraph, page)


def words_of(page):
    """The words of the content of a page, by its tree: the element that its generator marks as main."""
    tree = lxml.html.document_fromstring(page.encode(), parser=lxml.html.HTMLParser(encoding="utf8"))
    for element in tree.xpath("//script | //style | //noscript | //nav | //button | //aside"):
        element.drop_tree()
    roots = tree.xpath("//main | //*[@role='main'][not(ancestor::main)]") or [tree]
    return [word for root in roots for text in root.itertext() for word in re.findall(r"\w+", text.lower())]


def verified_pairs(pages, extract):
    """Each pair of pages that the service finds and confirms, with its distance."""
    documents = [{"id": str(i), "html": page, "extract": extract} for i, page in enumerate(pages)]
    with served.service(NEARPRINT_DATA__DISTANCE_MAX="8") as address:
        of_fingerprint = {}
        for page, reply in enumerate(served.batch(address, "insert", documents)):
            of_fingerprint.setdefault(reply.get("fingerprint"), []).append(page)
        asked = [document | {"distance": max(DISTANCES), "limit": 1000} for document in documents]
        replies = served.batch(address, "query", asked)
    pairs = {}
    for one, reply in enumerate(replies):
        # A page without a word has no fingerprint.
        for hit in reply.get("hits", ()):
            if hit["confirmed"] is not False and hit["distance"] <= max(DISTANCES):
                for other in of_fingerprint[hit["fingerprint"]]:
                    if other != one:
                        pairs[min(one, other), max(one, other)] = hit["distance"]
    return pairs


def agreement(one, other):
    length = len(one) + len(other)
    return 2 * LCSseq.similarity(one, other) / length if length else 1.0


def measure(pages, words):
    """For each extraction and distance: true, doubtful and false pairs; and examples of the false."""
    known, results, examples = {}, {}, {}
    for extract in EXTRACTS:
        pairs = verified_pairs([page for _, page in pages], extract)
        for pair in pairs.keys() - known.keys():
            known[pair] = agreement(words[pair[0]], words[pair[1]])
        for distance in DISTANCES:
            agreements = numpy.array([known[pair] for pair, found in pairs.items() if found <= distance])
            right, wrong = int((agreements >= TRUE).sum()), int((agreements < FALSE).sum())
            results[extract, distance] = (right, len(agreements) - right - wrong, wrong)
        false = [pair for pair in pairs if known[pair] < FALSE]
        examples[extract] = [(pages[a][0], pages[b][0], round(known[a, b], 2)) for a, b in false[:10]]
    return results, examples


def versions(name):
    """The pages of a generator: their names, and the pages; in two versions."""
    found = dict(GENERATORS[name]())
    if len(found) == 1:
        (version, pages), = found.items()
        found["edited"] = {path: edited(path, page) for path, page in pages.items()}
    return [(f"{version}/{path}", page) for version, pages in found.items() for path, page in pages.items()]


def row(name, count, results, extract):
    cells = [name, f"{count:,}", f"`{extract}`"]
    for distance in DISTANCES:
        right, doubtful, wrong = results[extract, distance]
        precision = right / (right + wrong) if right + wrong else 1.0
        cells += [f"{right:,}", f"{doubtful:,}", f"{wrong:,}", f"{precision:.4f}".lstrip("0") if precision < 1 else "1"]
    return "| " + " | ".join(cells) + " |"


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    rows, total, pages_of_all = [], {}, 0
    for name in GENERATORS:
        pages = versions(name)
        if not pages:
            print(f"{name}: nothing is installed, left out")
            continue
        results, examples = measure(pages, [words_of(page) for _, page in pages])
        for extract in EXTRACTS:
            rows.append(row(name, len(pages), results, extract))
            print(rows[-1], *examples[extract], sep="\n    ")
        pages_of_all += len(pages)
        for key, counts in results.items():
            total[key] = tuple(map(sum, zip(total.get(key, (0, 0, 0)), counts)))
    rows += [row("all", pages_of_all, total, extract) for extract in EXTRACTS]
    print(*rows[-len(EXTRACTS):], sep="\n")
    version = subprocess.run([BINARY, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True, check=False)
    text = pathlib.Path("bench/quality/pages.md").read_text(encoding="utf8")
    made = f"{version} at {commit.stdout.strip()}, {datetime.date.today()}"
    text = text.replace("{{made}}", made).replace("{{a_version}}", str(PAGES_A_VERSION))
    text = text.replace("{{table}}", "\n".join(rows))
    before, _, after = PAGE.read_text(encoding="utf8").partition("\n" + NEXT)
    before = before.split("\n" + HEADING)[0].rstrip("\n")
    PAGE.write_text(f"{before}\n\n{text.rstrip()}\n\n{NEXT}{after}", encoding="utf8")
    print("written: the section Pages of generators of docs/quality.md")


main()
