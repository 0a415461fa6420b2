"""Requests of attackers, drawn from a seed: what is answered must be no failure of the server and tell nothing."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx

from tests.web.attack.target import HIDDEN, KEY, NEWEST_US, SEEN, Target

Params = list[tuple[str, str]]
# What the server must not tell to anybody: where it is installed, and how it failed.
TRACES = re.compile(
    r"Traceback|site-packages|File \"|\b0x[0-9a-f]{6,}|/(?:home|work|tmp|root|usr|var)/|\.py\b"
)
# What a token of one stream must not read of the other, in any answer.
HIDDEN_WORDS = (HIDDEN, KEY, str(NEWEST_US), str(NEWEST_US)[:10], "1970-01-15", "977")
TABLES = ("ask", "series", "arrivals", "streams", "ledger", "queries")
VIEWS = ("versions", "changes", "quality")
PROMETHEUS = (
    "query",
    "query_range",
    "series",
    "labels",
    "label/device/values",
    "label/__name__/values",
    "metadata",
)
ODD = (
    *(
        "",
        " ",
        "0",
        "-1",
        "1e309",
        "nan",
        "2147483648",
        "9" * 40,
        "null",
        "true",
        "[]",
        "{}",
        "%",
        "*",
        "..",
        "/",
    ),
    *(
        "\u202e",
        "\ud7ff",
        "\x1b[31m",
        "=1+1",
        "'",
        '"',
        "';--",
        "a=b",
        "=",
        "$x",
        "{{1}}",
        "é" * 200,
        "0001-01-01",
    ),
    *(
        "9999-12-31",
        "-9223372036854775808us",
        "9223372036854775807us",
        "1970-01-01T00:00:00+99:99",
        "now",
        "1ms",
    ),
    *(
        "(" * 2_000 + ")" * 2_000,
        "[" * 2_000,
        "x" * 5_000,
        "{" + "a," * 900 + "}",
        "1m" * 100,
        "0s",
        "1y",
        "a=" * 999,
    ),
    *("1" + "+1" * 8_000, "a" + " or a" * 9_000, "-" * 9_000 + "1", '"' * 20_001),
)
NAMES = (
    *(
        "stream",
        "measure",
        "agg",
        "from",
        "to",
        "where",
        "by",
        "limit",
        "points",
        "exact",
        "query",
        "time",
        "start",
    ),
    *(
        "end",
        "step",
        "match[]",
        "metric",
        "runs",
        "failed",
        "before",
        "after",
        "q",
        "token",
        "view",
        "reason",
        "day",
    ),
)
PROMQL = (
    "{}",
    "sum_over_time({}[5m])",
    "avg_over_time({}:temp[1d] offset 5m)",
    "sum by (device) (count_over_time({}[1h]))",
    "rate({}[1m])",
    "topk(3, {})",
    '{{__name__=~"{}.*"}}',
    "count_over_time({}:nope[1m])",
    "-({})",
    "{} or {}",
)


@dataclass
class Tried:
    """The number of requests and what was wrong with the answers to some."""

    tried: int = 0
    broken: list[str] = field(default_factory=list)

    def judge(self, answer: httpx.Response, *faults: str | None) -> None:
        """Count an answer, and keep its faults and those that none may have."""
        self.tried += 1
        said = f"{answer.request.method} {str(answer.request.url)[:300]} -> {answer.status_code}"
        found = [fault for fault in faults if fault]
        if answer.status_code >= 500 and answer.status_code not in (503, 504):
            found.append("a failure of the server")
        if trace := TRACES.search(_told(answer)):
            found.append(f"told {trace[0]!r}")
        self.broken += [f"{said}: {fault}: {answer.text[:300]}" for fault in found]


def _told(answer: httpx.Response) -> str:
    """Return what an answer says of itself: its error, or nothing of an answer that is right."""
    return answer.text if answer.status_code >= 400 else ""


def without_token(target: Target, count: int, seed: int) -> Tried:
    """Ask for everything without a token, with wrong ones, and with the right one put in wrong places."""
    dice, tried = random.Random(seed), Tried()
    for _ in range(count):
        method, path, params = _any(dice)
        token = target.every
        wrong = dice.choice(["", "x", token[:-1], token + "=", token.upper(), "null", token[::-1], "é"])
        given: dict[str, Any] = dice.choice(
            [
                {},
                {"headers": {"Authorization": f"Bearer {wrong}".encode()}},
                {
                    "headers": {
                        "Authorization": f"{dice.choice(['Basic', 'Digest', 'Token', ''])} {token}".encode()
                    }
                },
                {"headers": {"Cookie": f"tidemark-80={wrong}; token={token}".encode()}},
                {"headers": {"X-Token": token, "Proxy-Authorization": f"Bearer {token}"}},
            ]
        )
        params = _fitting([*params, ("token", token)] if dice.random() < 0.2 else params)
        answer = target.client.request(method, path, params=params, follow_redirects=False, **given)
        is_refused = answer.status_code in (400, 401, 405)
        tried.judge(answer, None if is_refused or path == "/healthz" else "was let in")
    return tried


def of_one_stream(target: Target, count: int, seed: int) -> Tried:
    """Ask with a token of one stream for everything, and look for the other stream in each answer."""
    dice, tried = random.Random(seed), Tried()
    for _ in range(count):
        method, path, params = _any(dice)
        params = _fitting(params)
        asked = json.dumps([path, params])
        answer = target.client.request(
            method, path, params=params, headers=target.headers(target.limited), follow_redirects=False
        )
        seen = answer.text + str(answer.headers.get("content-location", ""))
        # What was asked is repeated in errors.
        told = [word for word in HIDDEN_WORDS if word in seen and word not in asked]
        tried.judge(answer, f"told {told} of the other stream" if told else None)
    return tried


def odd(target: Target, count: int, seed: int) -> Tried:
    """Ask with every scope for what makes no sense."""
    dice, tried = random.Random(seed), Tried()
    for _ in range(count):
        method, path, params = _any(dice)
        path = _bent(dice, path)
        params = [*params, *((dice.choice(NAMES), dice.choice(ODD)) for _ in range(dice.randrange(4)))]
        params = params * 200 if dice.random() < 0.02 else params
        params = _fitting(params)
        headers = target.headers(target.every) | dict([dice.choice(_HEADERS)])
        if method == "POST" and dice.random() < 0.7:
            form = "&".join(
                f"{dice.choice(NAMES)}={dice.choice(ODD)[:50]}" for _ in range(dice.choice([1, 3, 1100]))
            )
            headers |= {"Content-Type": "application/x-www-form-urlencoded"}
            answer = target.client.post(path, content=form.encode("utf-8", "replace"), headers=headers)
        else:
            answer = target.client.request(
                method, path, params=params, headers=headers, follow_redirects=False
            )
        tried.judge(answer)
    return tried


_HEADERS: list[tuple[str, str]] = [
    ("Range", "bytes=0-5"),
    ("Range", "bytes=99999999999-"),
    ("Range", "bytes=5-1,2-1"),
    ("Range", "lines=1"),
    ("If-None-Match", "*"),
    ("If-Range", "Wed, 21 Oct 2015 07:28:00 GMT"),
    ("Accept", "\x7f"),
    ("Content-Type", "multipart/form-data"),
    ("Origin", "http://127.0.0.1"),
    ("Content-Length", "0"),
    ("Expect", "100-continue"),
]
_PLACES = (
    *(
        "/",
        "/page/",
        "/page/../../etc/passwd",
        "/page/app.js",
        "/reports/",
        "/reports/../control.sqlite",
        "/reports/index.html/x.html",
        "/reports/" + "a" * 300 + ".html",
        "/events2",
    ),
    *("/openapi.json", "/healthz", "/status.json", "/latest/tidemark.duckdb", "/latest/attach.sql"),
    *(
        "/latest/segments/1.duckdb",
        "/latest/segments/..%2f1.duckdb",
        "/v/abc/streams.json",
        "/v/1/tidemark.duckdb",
    ),
    *(
        "/v/2147483648/streams.json",
        "/v/0/ask.json",
        "/v/-1/ask.json",
        "/v/1e3/ask.csv",
        "/v/٣/ask.json",
        "/.git",
    ),
    *(
        "/latest/streams.xml",
        "/latest/queries/x/pairs.json",
        "/queries/..%2f..%2fx/batches.json",
        "//evil.example/",
    ),
)
_METHODS = ("GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW")
_Draw = Callable[[random.Random], tuple[str, Params]]


def _any(dice: random.Random) -> tuple[str, str, Params]:
    """Draw a method, a path and its parameters, of which many fit."""
    draw: _Draw = dice.choice([_table, _table, _view, _prometheus, _prometheus, _quarantine, _place])
    path, params = draw(dice)
    return dice.choice(_METHODS), path, params


def _fitting(params: Params) -> Params:
    """Return the first parameters, no more than the client sends."""
    fitting: Params = []
    size = 0
    for one in params:
        size += len(urlencode([one])) + 1
        if size > 60_000:
            break
        fitting.append(one)
    return fitting


def _stream(dice: random.Random) -> str:
    return dice.choice([SEEN, SEEN, HIDDEN, "unpublished", "nope", SEEN[:-1], HIDDEN[:-1]])


def _table(dice: random.Random) -> tuple[str, Params]:
    stream, table = _stream(dice), dice.choice([*TABLES, "streams/{}/keys/device", "streams/{}/keys/nope"])
    version = dice.choice(["/latest", "/latest", "/v/1", "/v/7"])
    return f"{version}/{table.format(stream)}.{dice.choice(['json', 'csv', 'arrow'])}", _question(
        dice, stream
    )


def _view(dice: random.Random) -> tuple[str, Params]:
    stream = _stream(dice)
    return f"/{dice.choice(VIEWS)}.{dice.choice(['json', 'csv'])}", _question(dice, stream)


def _question(dice: random.Random, stream: str) -> Params:
    params = [("stream", stream)]
    optional = [
        ("measure", dice.choice(["temp", "hits", "*", "tmp"])),
        ("agg", dice.choice(["sum", "avg", "count", "median"])),
        ("from", "1970-01-01"),
        ("to", "1970-02-01"),
        ("where", f"device={KEY[:5]}"),
        ("by", dice.choice(["device", "zone", "nope"])),
        ("points", "20"),
        ("runs", "3"),
    ]
    return params + [one for one in optional if dice.random() < 0.5]


def _prometheus(dice: random.Random) -> tuple[str, Params]:
    text = dice.choice([*PROMQL, *ODD]).replace("{}", _stream(dice)).replace("{{", "{").replace("}}", "}")
    between = [("start", "0"), ("end", "1300000"), ("step", "100000")]
    params = [("query", dice.choice([text, text, "1", "ALERTS"])), *(between if dice.random() < 0.5 else [])]
    if dice.random() < 0.5:
        params.append(
            ("match[]", dice.choice([text, SEEN, HIDDEN, '{device=~".+"}', f'{{__name__!="{SEEN}"}}']))
        )
    return f"/prometheus/api/v1/{dice.choice(PROMETHEUS)}", params


def _quarantine(dice: random.Random) -> tuple[str, Params]:
    return f"/quarantine/{_stream(dice)}{dice.choice(['.json', '/facets.json', '.csv'])}", []


def _place(dice: random.Random) -> tuple[str, Params]:
    return dice.choice(_PLACES), []


def _bent(dice: random.Random, path: str) -> str:
    """Return a path with a piece that does not belong there, now and then."""
    if dice.random() < 0.7:
        return path
    parts = path.split("/")
    parts[dice.randrange(len(parts))] = dice.choice(
        ["..", "%2e%2e", "%00", "a" * 3_000, "%ff", "*", "~", "-1", "abc"]
    )
    return "/" + "/".join(parts).lstrip("/")


ATTACKS: dict[str, Callable[[Target, int, int], Tried]] = {
    "without_token": without_token,
    "of_one_stream": of_one_stream,
    "odd": odd,
}
