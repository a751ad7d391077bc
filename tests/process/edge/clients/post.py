"""Posts batches with the HTTP clients of Python: URL PREFIX LINES. Prints what went wrong."""

import asyncio
import http.client
import itertools
import json
import sys
import urllib.parse

import aiohttp
import httpx
import requests

URL, PREFIX, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3])
PATH = "/v1/insert/batch"
HEADERS = {"Content-Type": "application/x-ndjson"}
TIMEOUT = 30
PIECE = 8 << 10


def lines(way):
    make = '{"id":"%s/%s/%d","metadata":{"n":"%d"},"fingerprint":"%016x"}\n'
    return "".join(make % (PREFIX, way, i, i, i) for i in range(COUNT)).encode()


def pieces(body):
    for at in range(0, len(body), PIECE):
        yield body[at : at + PIECE]


async def later(pieces):
    for piece in pieces:
        yield piece


def plain(body):
    """The body is bytes or pieces of them; everything is sent before anything is read."""
    address = urllib.parse.urlsplit(URL).netloc
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT)
    connection.request("POST", PATH, body=body, headers=HEADERS)
    return connection.getresponse().read()


async def asynchronous(body):
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        async with session.post(URL + PATH, data=body, headers=HEADERS, expect100=True) as reply:
            return await reply.read()


def with_requests(body):
    return requests.post(URL + PATH, data=body, headers=HEADERS, timeout=TIMEOUT).content


def with_httpx(body):
    return httpx.post(URL + PATH, content=body, headers=HEADERS, timeout=TIMEOUT).content


def with_aiohttp(body):
    return asyncio.run(asynchronous(body if isinstance(body, bytes) else later(body)))


CLIENTS = {
    "http.client": plain,
    "requests": with_requests,
    "httpx": with_httpx,
    "aiohttp": with_aiohttp,
}
FORMS = {"": lambda body: body, "-pieces": pieces}

wrong = 0
for (client, post), (form, formed) in itertools.product(CLIENTS.items(), FORMS.items()):
    way = client + form
    try:
        replies = post(formed(lines(way))).splitlines()
        stored = sum(json.loads(reply).get("outcome") == "inserted" for reply in replies)
        problem = None if stored == COUNT else f"{stored} of {COUNT} stored, {len(replies)} replies"
    except Exception as error:
        problem = repr(error)
    if problem:
        print(f"{way}: {problem}")
        wrong += 1
sys.exit(wrong > 0)
