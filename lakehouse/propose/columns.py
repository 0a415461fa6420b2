"""Types of columns by their texts; which of them are keys, measures, counters, or neither."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unicodedata import combining, normalize

from lakehouse.config.columns import NAME, RESERVED
from lakehouse.propose.sample import Sample

_INT = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
# Digits of an identity: amounts do not begin so.
_LEADING_ZERO = re.compile(r"0\d+$")
_COMMA = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?")
_GROUPED = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_UNIT = re.compile(r"([+-]?\d+(?:[.,]\d+)?)(\s*[^\d\s.,+-][^\d]*)")
_TRUTHS = {"true", "false", "yes", "no", "t", "f", "y", "n"}
_NONE = {"", "na", "n/a", "null", "none", "nan", "-", "--", "---", "?", "unavailable", "unknown"}
# Values that loggers write where they have none, if they are far from all others.
_SENTINELS = (
    *(-999.0, -9999.0, -99999.0, -6999.0, -7999.0, -9999.9, -999.9, -99.9, 9999.0, 99999.0, 999.0),
    *(-127.0, -32768.0, 32767.0, 65535.0),
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
# Of words of a name: what tells devices and places apart, unless it is of something passing; numbers that are no
# amounts; both sides of a flow.
_KEY = (
    r"\b(id|device|dev|sensor|station|site|node|meter|gateway|room|channel|name|serial|eui|host|mac|unit|slave|register"
    r"|tag|location|place|area|zone|building|plant|machine|pump|asset|entity|well|addr|devaddr|deveui|ip)\b"
)
_KEYED = re.compile(_KEY)
# Of numbers: "sensor 3" is what sensor 3 measures.
_KEYED_NUMBER = re.compile(rf"{_KEY}( (no|nr|number|address|[a-z]))?$")
_PASSING = re.compile(
    r"\b(message|msg|frame|packet|event|request|transaction|session|uplink|deduplication)\b"
)
_CODED = re.compile(
    r"\b(p?pid|tid|uid|gid|[sd]?port|proto|protocol|code|vlan|asn|type|class|status|mode|flags?|precision"
    r"|year|month|day|hour|minute|weekday)\b"
)
_SIDES = re.compile(r"\b(src|source|sa|srcaddr)\b"), re.compile(r"\b(dst|dest|destination|da|dstaddr)\b")
_COUNTED = re.compile(r"total|count(er)?$|kwh|energy|odometer|cumul|packets|bytes|reading", re.IGNORECASE)
_NUMBERED = re.compile(r"^(record|row|index|seq|no|nr|line|entry|id|#)$", re.IGNORECASE)
_LASTS = re.compile(r"\d+:\d{2}(:\d{2}([.,]\d+)?)?")
_ELAPSED = re.compile(r"time|elapsed|second|uptime", re.IGNORECASE)
# Words among numbers, such as "Error", that are read as missing values where there are few.
_WORD, _MOST_WORDS, _WORDS_SHARE = re.compile(r"[^\W\d_][^\d,;]*"), 3, 0.2
_MOST_KEYS, _ROWS_A_KEY, _LEAST_ROWS, _LEAST_STEPS = 1000, 3, 4, 10
# Of so few rows a column that is named like a key is one if a value of it comes twice.
_SHORT = 30


@dataclass
class Found:
    """One column: its name in tables, its declaration, its role, an example, and what is not sure.

    Roles: key, measure, counter, kept (neither, but stored), left out.
    """

    title: str
    name: str
    declared: dict[str, Any]
    role: str
    example: str
    doubts: list[str] = field(default_factory=list)


def time_columns(names: Sequence[str]) -> dict[str, str]:
    """Return the columns of a time with the names that they have in tables."""
    used = set[str]()
    return {name: _own_name(f"time_{name}" if name.isdigit() else name, used) for name in names}


def columns_of(sample: Sample, times: Mapping[str, str], others: Sequence[str] = ()) -> list[Found]:
    """Return the columns of a sample but those of its time; ``times``: these with their names in tables.

    ``others``: columns that are times, too, of which no row has its key.
    """
    used = set(times.values())
    found = []
    for position, name in enumerate(sample.names):
        if name in times:
            continue
        texts = sample.column(name)
        declared, doubts = _typed(texts)
        if declared.get("decimal") == "," and "separator" not in sample.source:
            doubts.append("the separator is a comma as well")
        own = _own_name(name, used)
        if sample.source.get("header") in ("none", "skip"):
            declared["position"] = position
        elif own != name:
            declared["path"] = name
        role = "left out" if name in others else _role(name, declared, texts)
        if role == "key" and declared["type"] == "int":
            doubts.append("whole numbers are read as a key, as the column is named like one")
        if role == "kept":
            # Whatever a later file has there, it is no reason to reject a row.
            declared["type"] = "string"
        found.append(Found(name, own, declared, role, texts[0] if texts else "", doubts))
    _find_counters(sample, found)
    return found


def _find_counters(sample: Sample, columns: Sequence[Found]) -> None:
    """Make counters of measures that are named like one and never fall, in the rows of each device."""
    if has_sides(sample.names):
        # What flows count begins anew with each.
        return
    places = [sample.names.index(each.title) for each in columns if each.role == "key"]
    for each in columns:
        spelt = {"strip", "decimal", "thousands", "missing"} & each.declared.keys()
        if each.role != "measure" or spelt or not _COUNTED.search(each.title):
            continue
        at, readings = sample.names.index(each.title), dict[tuple[str, ...], list[float]]()
        for row in sample.rows:
            if text := row[at].strip():
                readings.setdefault(tuple(row[place] for place in places), []).append(float(text))
        if _is_rising(readings.values()):
            each.role = "counter"
            each.doubts.append("it never falls: read as a counter, of which the increase is asked")


def _typed(texts: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    there = [text for text in texts if text.lower() not in _NONE]
    absent = sorted(
        {text for text in texts if text.lower() in _NONE and text} - {"NA", "N/A", "NULL", "null"}
    )
    missing: list[Any] = list(absent)
    doubts: list[str] = []
    declared: dict[str, Any] = {"type": "string"}
    if there and any(_LEADING_ZERO.match(text) for text in there):
        missing = []
    elif there and all(_INT.fullmatch(text) for text in there):
        declared["type"] = "int"
    elif there and all(_NUMBER.fullmatch(text) for text in there):
        declared["type"] = "double"
    elif there and all(_COMMA.fullmatch(text) for text in there):
        declared |= {"type": "double", "decimal": ","} | (
            {"thousands": "."} if any("." in text for text in there) else {}
        )
        doubts.append("commas are read as decimal marks")
    elif there and all(_GROUPED.fullmatch(text) for text in there):
        declared |= {"type": "double" if any("." in text for text in there) else "int", "thousands": ","}
        doubts.append("commas are read as marks of thousands")
    elif there and all(text.lower() in _TRUTHS for text in there):
        declared["type"] = "boolean"
    elif there and (units := _units(there)):
        declared |= {"type": "double", "strip": units}
        if any("," in text for text in there):
            declared["decimal"] = ","
            doubts.append("commas are read as decimal marks")
        doubts.append(f"{', '.join(map(repr, units))} is read as a unit")
    elif words := _few_words(there):
        declared["type"] = "double"
        missing += words
        doubts.append(f"{', '.join(map(repr, words))} among numbers is read as a missing value")
    else:
        missing = []
        others = [text for text in there if not _NUMBER.fullmatch(text)]
        if 2 * len(others) < len(there):
            doubts.append(f"{len(there) - len(others)} of {len(there)} values are numbers, not {others[0]!r}")
    if declared["type"] in ("int", "double") and not {"decimal", "thousands", "strip"} & declared.keys():
        sentinels = _sentinels([float(text) for text in there if _NUMBER.fullmatch(text)])
        missing += sentinels
        doubts += [f"{each:g} is read as a missing value" for each in sentinels]
    return declared | ({"missing": missing} if missing else {}), doubts


def _units(texts: Sequence[str]) -> list[str]:
    """Return the units behind numbers, none where some text is no such number or units are many."""
    matches = [_UNIT.fullmatch(text) for text in texts]
    units = Counter(match[2] for match in matches if match)
    return sorted(units) if all(matches) and len(units) == 1 else []


def _few_words(texts: Sequence[str]) -> list[str]:
    """Return words among numbers, none where there are many, or something else is there."""
    others = Counter(text for text in texts if not _NUMBER.fullmatch(text))
    is_few = len(others) <= _MOST_WORDS and others.total() <= _WORDS_SHARE * len(texts)
    return sorted(others) if is_few and all(map(_WORD.fullmatch, others)) else []


def _sentinels(values: Sequence[float]) -> list[float]:
    """Return values that stand for none: round ones far outside of what all others are, or all that there is."""
    others = [value for value in values if value not in _SENTINELS]
    if not others and len(values) >= _LEAST_ROWS and len(set(values)) == 1 and values[0] < 0:
        return [values[0]]
    if len(others) < _LEAST_ROWS:
        return []
    low, high = min(others), max(others)
    far = max(high - low, abs(high), abs(low), 1.0)
    there = set(values)
    return [each for each in _SENTINELS if each in there and (each < low - 2 * far or each > high + 2 * far)]


def is_named_like_key(name: str) -> bool:
    """Return whether a column is named like one that tells devices apart.

    >>> [is_named_like_key(name) for name in ("deviceName", "dev_eui", "S.Message.ID", "wind")]
    [True, True, False, False]
    """
    words = _words(name)
    return bool(_KEYED.search(words)) and not _PASSING.search(words)


def has_sides(names: Sequence[str]) -> bool:
    """Return whether columns are those of flows or packets, which have a source and a destination.

    >>> has_sides(["srcAddr", "dst_addr", "bytes"]), has_sides(["source", "value"])
    (True, False)
    """
    words = "\n".join(map(_words, names))
    return all(side.search(words) for side in _SIDES)


def _words(name: str) -> str:
    return " ".join(_WORDS.findall(name)).lower()


def _role(name: str, declared: dict[str, Any], texts: Sequence[str]) -> str:
    words, is_whole = _words(name), declared["type"] == "int"
    if not texts or not name:
        return "left out"
    is_passing = bool(_PASSING.search(words))
    is_keyed = is_whole and not is_passing and _KEYED_NUMBER.search(words)
    if is_whole and _NUMBERED.fullmatch(name.rpartition(".")[2]) and len(set(texts)) == len(texts):
        return "left out"
    if declared["type"] not in ("int", "double") or is_keyed:
        return _role_of_texts(name, declared["type"], texts)
    is_coded = _CODED.search(words) or _NUMBERED.fullmatch(words) or (is_passing and _KEYED.search(words))
    if (is_whole and is_coded) or words.endswith("version"):
        return "kept"
    numbers = [float(text) for text in texts if _NUMBER.fullmatch(text)]
    return "kept" if _ELAPSED.search(name) and _is_even(numbers) else "measure"


def _role_of_texts(name: str, kind: str, texts: Sequence[str]) -> str:
    different, is_named = len(set(texts)), is_named_like_key(name)
    few = different * _ROWS_A_KEY <= len(texts)
    few |= is_named and different < len(texts) <= _SHORT
    if kind not in ("string", "int") or different > _MOST_KEYS or not few:
        return "left out"
    # What is the same everywhere, or is passing, tells no rows apart.
    is_needless = (different == 1 and len(texts) > _SHORT) or bool(_PASSING.search(_words(name)))
    return "kept" if all(map(_LASTS.fullmatch, texts)) or (is_needless and not is_named) else "key"


def plain_name(text: str, otherwise: str, prefix: str) -> str:
    """Return a text as a name that tables can have: ``otherwise`` if none is left, behind a prefix if a digit is first.

    >>> plain_name("Zähler [kWh]", "column", "c_"), plain_name("2", "column", "c_")
    ('zahler_kwh', 'c_2')
    """
    letters = "".join(each for each in normalize("NFKD", text.lower()) if not combining(each))
    plain = re.sub(r"[^a-z0-9]+", "_", letters).strip("_")[:80] or otherwise
    return plain if plain[0].isalpha() else prefix + plain


def _own_name(name: str, used: set[str]) -> str:
    """Return a name that tables can have, which no other column has."""
    plain = plain_name(name, "column", "c_")
    plain += "_value" if plain in RESERVED else ""
    chosen, number = plain, 1
    while chosen in used or chosen in RESERVED or not NAME.match(chosen):
        number += 1
        chosen = f"{plain}_{number}"
    used.add(chosen)
    return chosen


def _is_rising(readings: Iterable[Sequence[float]]) -> bool:
    """Return whether the numbers of each device never fall, and rise somewhere, over enough rows."""
    steps = [right - left for values in readings for left, right in pairwise(values)]
    return len(steps) >= _LEAST_STEPS and min(steps) >= 0 < max(steps)


def _is_even(values: Sequence[float]) -> bool:
    """Return whether numbers rise by nearly the same from row to row, as seconds since a start do."""
    steps = sorted(right - left for left, right in pairwise(values))
    if len(steps) < _LEAST_STEPS or steps[0] < 0:
        return False
    usual = steps[len(steps) // 2]
    return usual > 0 and 10 * sum(abs(step - usual) > usual / 2 for step in steps) <= len(steps)
