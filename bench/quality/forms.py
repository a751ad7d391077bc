"""Forms that are filled in differently: how many a check-and-insert drops, and what `min_numbers` saves.

    python3 bench/quality/forms.py http://127.0.0.1:7878    the tables; fills namespaces of this service
    python3 bench/quality/forms.py --texts                  the texts, a JSON object a line

Each kind has 60 texts with the same words and other firms, towns, sums, dates and versions. A person
calls no two of them the same, so each that is dropped is lost. The price is counted on the positive
pairs of the labelled set (QUALITY_SET): revisions that are no longer confirmed. `make figures WHAT=quality` writes
both tables to docs/quality.md.
"""

import csv
import json
import os
import random
import sys
import urllib.parse
import urllib.request

COUNT = 60
SEED = 20_260_727
DEMANDED = (0.3, 0.5)
SETS = [
    ("documents", "docs.jsonl", "pairs.tsv"),
    ("short texts", "short.jsonl", "short_pairs.tsv"),
]

TOWNS = """Aldford Brenton Carswick Dunmore Elmhurst Fairhaven Glenrock Harwell Ilminster Jedburgh
Kelso Langport Marlow Northam Oakham Penrith Quarndon Redhill Selby Thirsk Ulverston Ventnor Wetherby
Yarmouth Bergen Aarhus Utrecht Leipzig Lyon Porto Bilbao Verona Graz Brno Gdansk Turku""".split()
FIRST = """Aurora Boreal Castor Delphi Ember Falcon Granite Harbour Indigo Juniper Kestrel Lumen
Meridian Nimbus Orchard Pioneer Quartz Raven Summit Tundra Umbra Vector Willow Zephyr""".split()
SECOND = """Analytics Foods Freight Instruments Insurance Logistics Motors Optics Partners Pumps
Robotics Shipping Software Systems Textiles Tools""".split()
JOBS = """accountant analyst architect buyer chemist clerk designer dispatcher driver editor
electrician engineer fitter foreman gardener lawyer librarian machinist mechanic nurse planner
programmer surveyor technician translator welder""".split()
GOODS = """kettle lamp rucksack raincoat bicycle saddle desk chair blanket camera tripod speaker
headset keyboard monitor printer teapot saucepan drill ladder tent stove""".split()
LIBRARIES = """libarch libbase libcurve libdraw libenc libfont libgrid libhash libink libjoin libkey
liblex libmap libnet liborb libpack libquill libroute libscan libtree libuni libvec libwave libzip""".split()
MONTHS = """January February March April May June July August September October November
December""".split()
NAMES = """Abbott Barlow Carver Dawson Ellery Foster Gibson Hammond Ingram Jarvis Keller Lawson Mercer
Norris Osborne Parrish Quigley Rowland Sawyer Tanner Upton Vaughan Walton Yates""".split()
OFFICES = """Environment Finance Health Housing Labour Schools Trade Transport""".split()


def date(draw):
    return f"{draw.randint(1, 28)} {draw.choice(MONTHS)} {draw.randint(2019, 2026)}"


def money(draw, least, most):
    return f"{draw.randint(least, most):,}"


def firm(draw):
    return f"{draw.choice(FIRST)} {draw.choice(SECOND)}"


def clause(draw):
    section, other = draw.randint(2, 190), draw.randint(2, 190)
    return (
        f"Section {section}. A person who fails to comply with a notice that was given under section {other} "
        f"commits an offence and is liable on conviction to a fine of not more than {money(draw, 200, 99_000)} "
        f"pounds. The {draw.choice(OFFICES)} Office may extend the time for compliance if the person "
        f"applies in writing within {draw.randint(7, 90)} days after the notice was served, and gives "
        f"reasons for the delay that are acceptable to the officer in charge."
    )


def job(draw):
    town, company = draw.choice(TOWNS), firm(draw)
    return (
        f"{company} is looking for an experienced {draw.choice(JOBS)} to join our growing team in {town}. "
        f"You will work closely with colleagues from all departments, take responsibility for your own "
        f"projects from the first day, and help us to improve the way in which we serve our customers. We "
        f"offer a salary of {money(draw, 24_000, 98_000)} a year, {draw.randint(24, 35)} days of holiday, "
        f"flexible hours, a company pension and regular training. You have at least {draw.randint(2, 9)} "
        f"years of experience in a similar position, a good command of English and the will to learn. "
        f"Please send your application with reference {draw.randint(1_000, 99_999)} to our office in {town} "
        f"by {date(draw)}. {company} is an equal opportunity employer and welcomes every applicant."
    )


def advisory(draw):
    library, major = draw.choice(LIBRARIES), f"{draw.randint(0, 9)}.{draw.randint(0, 29)}"
    patch = draw.randint(1, 19)
    return (
        f"A vulnerability was found in {library} before version {major}.{patch}. A remote attacker who can "
        f"send a crafted file to an application that uses the library may cause a heap buffer overflow and "
        f"execute arbitrary code with the privileges of the user. The issue is tracked as "
        f"CVE-{draw.randint(2015, 2026)}-{draw.randint(1_000, 59_999)} and has a score of "
        f"{draw.randint(40, 99) / 10}. There is no known workaround. All users of {library} should upgrade to "
        f"version {major}.{patch + 1} or later as soon as possible. We thank the researcher who reported the "
        f"issue to us on {date(draw)}."
    )


def mail(draw):
    return (
        f"Dear {draw.choice(('Mr', 'Mrs'))} {draw.choice(NAMES)}, thank you for your order "
        f"{draw.randint(100_000, 999_999)} of {date(draw)}. We have received your payment of "
        f"{draw.randint(5, 900)}.{draw.randint(10, 99)} euros, and the {draw.choice(GOODS)} has left our warehouse "
        f"today. It will reach your address in {draw.choice(TOWNS)} within {draw.randint(2, 9)} working days. "
        f"You can follow the parcel on our page at any time. If you are not content with your purchase, you "
        f"can send it back to us free of charge, and we return the money to your account as soon as it has "
        f"arrived in our warehouse and was looked at. Your team of the {draw.choice(FIRST)} shop"
    )


def release(draw):
    return (
        f"{draw.choice(FIRST)} {draw.randint(1, 9)}.{draw.randint(0, 40)}.{draw.randint(0, 9)} was released on "
        f"{date(draw)}. This release fixes {draw.randint(3, 80)} bugs and closes {draw.randint(3, 80)} issues that "
        f"were reported by our users. We recommend that everyone upgrades. The binaries for all "
        f"platforms are on the download page, together with their checksums and the list of changes."
    )


def weather(draw):
    low = draw.randint(-9, 19)
    return (
        f"The weather in {draw.choice(TOWNS)} on {date(draw)}: the day begins with clouds and some light "
        f"rain in the morning, and the sun comes out in the afternoon. The temperature rises from {low} to "
        f"{low + draw.randint(3, 14)} degrees, and the wind blows from the {draw.choice(('north', 'south'))} "
        f"at {draw.randint(5, 70)} kilometres an hour. The risk of rain is {draw.randint(5, 95)} per cent. "
        f"The night stays dry and mostly clear."
    )


KINDS = {
    "legal clause": clause,
    "job advertisement": job,
    "security advisory": advisory,
    "order mail": mail,
    "release note": release,
    "weather report": weather,
}


def texts(kind):
    draw = random.Random(f"{SEED} {kind}")
    return [KINDS[kind](draw) for _ in range(COUNT)]


def post(address, route, body, media_type="application/json"):
    request = urllib.request.Request(f"{address}/v1/{route}", body.encode(), {"Content-Type": media_type})
    with urllib.request.urlopen(request) as reply:
        return [json.loads(line) for line in reply]


def dropped(address, kind, min_numbers):
    """The replies to the texts of a kind that a check-and-insert does not store."""
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts(kind))
    namespace = urllib.parse.quote(f"{kind} {min_numbers}")
    route = f"check-and-insert/batch?namespace={namespace}&min_numbers={min_numbers}"
    replies = post(address, route, lines, "application/x-ndjson")
    return [reply for reply in replies if not reply["stored"]]


def table_forms(address):
    rows = []
    for kind in KINDS:
        words = round(sum(len(text.split()) for text in texts(kind)) / COUNT)
        lost = {least: dropped(address, kind, least) for least in (0, *DEMANDED)}
        said = sum(reply.get("numbers_differ", False) for reply in lost[0])
        rows.append(f"| {kind} | {words} | {len(lost[0])} | {said} | {len(lost[0.3])} | {len(lost[0.5])} |")
    return "\n".join(rows)


def table_revisions(address, quality_set):
    rows = []
    for name, documents, pairs in SETS:
        with open(f"{quality_set}/dev/{documents}", encoding="utf8") as lines:
            text = {document["id"]: document["text"] for document in map(json.loads, lines)}
        with open(f"{quality_set}/dev/{pairs}", encoding="utf8") as lines:
            positive = [row for row in csv.DictReader(lines, delimiter="\t") if row["label"] == "pos"]
        compared = []
        for row in positive:
            pair = {side: {"text": text[row[side]]} for side in "ab"}
            compared += post(address, "compare", json.dumps(pair))
        numbers = [reply["numbers"] for reply in compared if reply["confirmed"]]
        null = sum(share is None for share in numbers)
        kept = [sum(share is None or share >= least for share in numbers) for least in DEMANDED]
        shares = " | ".join(f"{count / len(numbers):.3f}".lstrip("0") for count in kept)
        rows.append(f"| {name} | {len(numbers):,} | {null:,} | {shares} |")
    return "\n".join(rows)


def sections(address, quality_set):
    """What bench/quality/quality.md takes."""
    return {
        "table_forms": table_forms(address),
        "table_revisions": table_revisions(address, quality_set),
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["--texts"]:
        for kind in KINDS:
            for text in texts(kind):
                print(json.dumps({"kind": kind, "text": text}))
    elif len(sys.argv) == 2:
        found = sections(sys.argv[1], os.environ.get("QUALITY_SET", "../shared/quality"))
        print(*found.values(), sep="\n\n")
    else:
        sys.exit(__doc__)
