"""Forms that are filled in differently: what check-and-insert drops, and what `min_numbers` saves.

    bench/quality/forms.py URL               a service whose namespaces this may fill
    bench/quality/forms.py --texts           the texts, a JSON object a line, and no service

Each kind has 60 texts with the same words and other firms, towns, sums, dates and versions. A person
calls no two of them the same, so each that is dropped is lost.
"""

import json
import random
import sys
import urllib.request

COUNT = 60
SEED = 20_260_727

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
        f"You can follow the parcel on our page with the number {draw.randint(10**9, 10**10 - 1)}. If you are "
        f"not content with your purchase, you can send it back free of charge. Your team of the "
        f"{draw.choice(FIRST)} shop"
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


def check_and_insert(url, texts, namespace, options):
    """The replies of check-and-insert to the texts, in order."""
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    query = "&".join([f"namespace={namespace}", *options])
    request = urllib.request.Request(
        f"{url}/v1/check-and-insert/batch?{query}",
        data=lines.encode(),
        headers={"Content-Type": "application/x-ndjson"},
    )
    with urllib.request.urlopen(request) as reply:
        return [json.loads(line) for line in reply]


def measure(url):
    """For each kind: its words, and the texts that are dropped with and without `min_numbers`."""
    for number, kind in enumerate(KINDS):
        row = [kind, str(round(sum(len(text.split()) for text in texts(kind)) / COUNT))]
        for at, options in enumerate(([], ["min_numbers=0.3"], ["min_numbers=0.5"])):
            replies = check_and_insert(url, texts(kind), f"forms-{number}-{at}", options)
            dropped = [reply for reply in replies if not reply["stored"]]
            row.append(str(len(dropped)))
            if at == 0:
                row.append(str(sum(reply.get("numbers_differ", False) for reply in dropped)))
        yield row


def table(url):
    head = ["texts", "words", "lost", "of these with `numbers_differ`", "lost at 0.3", "lost at 0.5"]
    rows = [head, ["---", *["--:"] * (len(head) - 1)], *measure(url)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    if sys.argv[1:] == ["--texts"]:
        for kind in KINDS:
            for text in texts(kind):
                print(json.dumps({"kind": kind, "text": text}))
    elif len(sys.argv) == 2:
        print(table(sys.argv[1]))
    else:
        sys.exit(__doc__)
