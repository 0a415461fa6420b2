"""Lines of CSV and JSON: most are as usual, some have a value, a quote or a byte that they should not have."""

from __future__ import annotations

import json
import random
from typing import Any

from lakehouse.config.stream import Stream
from tests.ingest.hostile_values import BYTES

T0 = 1_600_000_000
UNITS = {"s": T0, "ms": T0 * 1000, "us": T0 * 10**6}
NUMBERS = [
    *[
        "0",
        "1",
        "-1",
        "20.5",
        "-0",
        "-0.0",
        "007",
        "1.",
        ".5",
        "+1",
        "1e3",
        "1E-5",
        "1d",
        "0x10",
        "1_000",
        "--1",
        "NaN",
        "nan",
        "inf",
        "-Infinity",
        "null",
        "NA",
        "",
        " 1",
        "1 ",
        "1 2",
    ],
    *[
        "0.1234567890123456789",
        "1.005",
        "2.675",
        "0.30000000000000004",
        "5e-324",
        "1e99",
        "1e400",
        "1,5",
        "true",
    ],
    *("9" * digits for digits in (17, 18, 19, 40)),
    *("12 °C", "1,234.5", "123456789012345678901.5", "99999999999999999.999", "1e18", "9223372036854775808"),
    *(
        "-9223372036854775808",
        "0.005",
        "-0.015",
        "1e-3",
        "1.5e2",
        "1e30",
        "1e38",
        "+.5",
        "-.5",
        ".",
        "e5",
        "1e+",
    ),
    *("1f", "0x1p3", "+Infinity", "INF", "NAN", "+NaN", "\u0661", "1\x00", "a'b", "{}", "[1]"),
    *("7.2500", "12345678.25", "1e1000", "-1e-1000", "0.00012", "23.400000000000002", "1" + "0" * 600),
]
TEXTS = [
    *["a", "", " ", "a b", " a", "device-1", "ü", '"q"', '"', "#x", "NULL", "-", "1.50"],
    "'",
    "\t",
    "x\ty",
    "a\\b",
    "\x7f",
    *["é", "日本", "a\u00a0", "\u2007x", "\U0001f600", "a/b", "x\u2028y"],
]
TRUTHS = [
    "TRUE",
    "y",
    "n",
    "F",
    "f",
    "truex",
    "true",
    "false",
    "True",
    "t",
    "yes",
    "1",
    "0",
    "no",
    "",
    "maybe",
    "null",
]
ISO = [
    *["2020-09-13T12:26:40", "2020-09-13 12:26:40.123456", "2020-09-13T12:26:40Z", "2020-09-13T12:26:40.1Z"],
    *[
        "2020-09-13",
        "2020-02-30T00:00:00",
        "2020-09-13T24:00:00",
        "2020-09-13T12:26:60",
        "2020-9-13T1:2:3",
        "noon",
        "",
    ],
    *[
        "2020-09-13T12:26:40+02:00",
        "2020-09-13T12:26",
        "T10:00",
        "1999-01-01T00:00:00",
        "0000-00-00T00:00:00",
    ],
    *["2020-10-25T02:00:00", "2020-10-25 02:59:59.9", "2020-03-29 02:30:00", "2020-10-25T02:30:00+02:00"],
    *["2020-04-05 01:45:00", "2020-10-04T02:29:59", "2020-10-04 02:30:00", "1883-11-18T12:00:00"],
    *["0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "10000-01-01T00:00:00Z", "2021-02-29T05:00:00"],
    *["2016-12-31T23:59:60Z", "2020-02-29T05:00:00", "2020-09-13T12:26:40.123456789", "2020-09-13T12:26:40z"],
    *["2020-09-13T12:26:40 UTC", "2020-09-13T12:26:40-00:30", "2020-09-13T12:26:40+18:00", "2020-09-13x"],
    *[
        "2020-09-13T12:26:40+19:00",
        "2020-09-13T12:60:40Z",
        "20200913T122640",
        "13.09.2020",
        "1e400",
        "-1e400",
    ],
]
KEYS = ("ts", "received", "text", "number", "real", "exact", "truth", "lasting")


def declared(file_format: str, unit: str, **more: Any) -> Stream:
    columns: dict[str, Any] = {"text": "string", "number": "int", "real": "double", "truth": "boolean"}
    columns |= {"exact": {"type": "decimal", "decimals": 2}, **({"ts": more["ts"]} if "ts" in more else {})}
    plus = {"plus": "lasting"} if more.get("plus") else {}
    return Stream.model_validate(
        {
            "name": "s",
            "source": {"path": "x", "format": file_format},
            "event_time": {"column": "ts", "unit": unit, "timezone": more.get("zone", "UTC")},
            "arrival_time": {"column": "received", "unit": unit, "timezone": more.get("zone", "UTC"), **plus},
            "clock_bounds": {"behind": "1h", "ahead": "1m"},
            "measures": ("real",),
            "levels": ["1d forever"],
            "columns": columns,
        }
    )


def texts_of(pick: random.Random, unit: str) -> dict[str, str]:
    """Most values are as usual, since a line with two odd ones tests one of them only."""

    def usually(usual: Any, odd: list[str]) -> str:
        return str(usual) if pick.random() < 0.85 else pick.choice(odd)

    start = UNITS.get(unit, 0)
    times = [str(start), f"{start}.5", f"{start}.123456", f"{start}.1234567891", f"{start}.", *NUMBERS]
    odd_times = ISO if unit == "iso" else times
    usual = ISO[0] if unit == "iso" else start + pick.randrange(50)
    return {
        "ts": usually(usual, odd_times),
        "received": usually(usual, odd_times),
        "text": usually("abc", TEXTS),
        "number": usually(pick.randrange(-99, 99), NUMBERS),
        "real": usually(round(pick.random() * 40, 3), NUMBERS),
        "exact": usually(round(pick.random() * 9, 2), NUMBERS),
        "truth": usually("true", TRUTHS),
        "lasting": usually(pick.choice(["1", "0.25", ""]), NUMBERS),
    }


def csv_line(pick: random.Random, unit: str) -> str:
    texts = [texts_of(pick, unit)[key] for key in KEYS]
    if pick.random() < 0.3:
        # As many writers do it: texts, or all fields, in quotes.
        texts = [pick.choice([text, f'"{text}"', f'"{text}"', f'"{text}"']) for text in texts]
    if pick.random() < 0.05:
        odd = pick.choice(['"a,1"', '"a""b"', 'a"b', '"a"b', '""', '"a', 'a"', '" a"', '"a "', ' "a"'])
        texts[pick.randrange(len(texts))] = odd
    cut = len(texts) + (pick.choice([-1, 1]) if pick.random() < 0.05 else 0)
    return pick.choice([",", ",", ",", ", "]).join([*texts, "more"][:cut])


def json_line(pick: random.Random, unit: str) -> str:
    texts = texts_of(pick, unit)
    keys = [key for key in KEYS if pick.random() < 0.97]
    if pick.random() < 0.1:
        pick.shuffle(keys)
    if pick.random() < 0.03:
        keys.append(pick.choice(KEYS))
    members = [f'"{key}": {_member(pick, key, texts[key], unit)}' for key in keys]
    if pick.random() < 0.1:
        members.insert(0, '"other": ' + pick.choice(["1", '"x"', "{}", "[1]", "null"]))
    line = pick.choice([", ", ","]).join(members)
    return (
        pick.choice(["{%s}"] * 20 + ["{%s", "[{%s}]", "{%s} ", " {%s}", "{ %s }", "{%s}{}", "{%s,}"]) % line
    )


def _member(pick: random.Random, key: str, text: str, unit: str) -> str:
    is_text = key == "text" or (unit == "iso" and key in ("ts", "received"))
    if is_text != (pick.random() < 0.05):
        return json.dumps(text) if pick.random() < 0.9 else f'"{text}"'
    return text or "null"


def damaged(pick: random.Random, line: str) -> bytes:
    """Return a line that is cut off, or has something in it."""
    at, content = pick.randrange(len(line) + 1), line.encode()
    return line[:at].encode() if pick.random() < 0.3 else content[:at] + pick.choice(ADDED) + content[at:]


ADDED = [
    *(
        b'"',
        b"'",
        b",",
        b",,",
        b"[",
        b"]",
        b"{",
        b"}",
        b"\\",
        b"\\u00e9",
        b"\\ud800",
        b":",
        b"1",
        b"null",
        b"//",
        b"#",
    ),
    *(b"\x00", b"\x0b", b"\x1f", b"\t", b" ", b"\r", b'""', b"0", b"-", b".", b"\xc3\xbc"),
    *(line for line in BYTES if b"\n" not in line),
]
CASES = [
    *((kind, unit, {}) for kind in ("csv", "ndjson") for unit in ("s", "ms", "us", "iso")),
    ("csv", "s", {"plus": True}),
    ("ndjson", "us", {"ts": "int"}),
    ("csv", "s", {"ts": "double"}),
    ("ndjson", "s", {"ts": "string"}),
    ("csv", "iso", {"zone": "Europe/Berlin"}),
    ("ndjson", "iso", {"zone": "Australia/Lord_Howe"}),
]
