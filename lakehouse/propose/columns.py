"""Types of columns by their texts; which of them are keys, measures, counters, or neither."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unicodedata import combining, normalize

from lakehouse.config.columns import NAME, RESERVED
from lakehouse.propose.sample import Sample

_INT = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?")
_GROUPED = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_UNIT = re.compile(r"([+-]?\d+(?:[.,]\d+)?)(\s*[^\d\s.,+-][^\d]*)")
_TRUTHS = {"true", "false", "yes", "no", "t", "f", "y", "n"}
_NONE = {"", "na", "n/a", "null", "none", "nan", "-", "--", "---", "?", "unavailable", "unknown"}
# Values that loggers write where they have none, if they are far from all others.
_SENTINELS = (-999.0, -9999.0, -99999.0, -6999.0, -7999.0, -9999.9, -999.9, -99.9, 9999.0, 99999.0, 999.0)
_KEYED = re.compile(
    r"(^|[^a-z])(id|device|dev|sensor|station|site|node|meter|gateway|room|channel|name|serial|eui|host|mac|unit|slave|register|tag)"
    r"([^a-z]|$)",
    re.IGNORECASE,
)
_COUNTED = re.compile(r"total|count(er)?$|kwh|energy|odometer|cumul|packets|bytes|reading", re.IGNORECASE)
_NUMBERED = re.compile(r"^(record|row|index|seq|no|nr|line|entry|id|#)$", re.IGNORECASE)
_MOST_KEYS, _ROWS_A_KEY, _LEAST_ROWS = 1000, 3, 4
# Of so few rows a column that is named like a key is one if a value of it comes twice.
_SHORT = 30


@dataclass
class Found:
    """One column: its name in tables, its declaration, its role, an example, and what is not sure."""

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
        found.append(Found(name, own, declared, role, texts[0] if texts else "", doubts))
    return found


def _typed(texts: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    there = [text for text in texts if text.lower() not in _NONE]
    absent = sorted(
        {text for text in texts if text.lower() in _NONE and text} - {"NA", "N/A", "NULL", "null"}
    )
    missing: list[Any] = list(absent)
    doubts: list[str] = []
    declared: dict[str, Any] = {"type": "string"}
    if there and all(_INT.fullmatch(text) for text in there):
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
    else:
        missing = []
        others = [text for text in there if not _NUMBER.fullmatch(text)]
        if 2 * len(others) < len(there):
            doubts.append(f"{len(there) - len(others)} of {len(there)} values are numbers, not {others[0]!r}")
    if declared["type"] in ("int", "double") and not {"decimal", "thousands", "strip"} & declared.keys():
        sentinels = _sentinels([float(text) for text in there])
        missing += sentinels
        doubts += [f"{each:g} is read as a missing value" for each in sentinels]
    return declared | ({"missing": missing} if missing else {}), doubts


def _units(texts: Sequence[str]) -> list[str]:
    """Return the units behind numbers, none where some text is no such number or units are many."""
    matches = [_UNIT.fullmatch(text) for text in texts]
    units = Counter(match[2] for match in matches if match)
    return sorted(units) if all(matches) and len(units) == 1 else []


def _sentinels(values: Sequence[float]) -> list[float]:
    """Return values that stand for none: round ones far outside of what all others are."""
    others = [value for value in values if value not in _SENTINELS]
    if len(others) < _LEAST_ROWS:
        return []
    low, high = min(others), max(others)
    far = max(high - low, abs(high), abs(low), 1.0)
    there = set(values)
    return [each for each in _SENTINELS if each in there and (each < low - 2 * far or each > high + 2 * far)]


def is_named_like_key(name: str) -> bool:
    """Return whether a column is named like one that tells devices apart."""
    return bool(_KEYED.search(name))


def _role(name: str, declared: dict[str, Any], texts: Sequence[str]) -> str:
    different, is_number = len(set(texts)), declared["type"] in ("int", "double")
    if not texts or not name:
        return "left out"
    if not is_number or (declared["type"] == "int" and _KEYED.search(name)):
        few = different * _ROWS_A_KEY <= len(texts)
        few |= bool(_KEYED.search(name)) and different < len(texts) <= _SHORT
        is_key = different <= _MOST_KEYS and few
        return "key" if is_key and declared["type"] in ("string", "int") else "left out"
    if _NUMBERED.fullmatch(name) and different == len(texts):
        return "left out"
    plain = not {"strip", "decimal", "thousands", "missing"} & declared.keys()
    if (
        plain
        and len(texts) > _LEAST_ROWS
        and _COUNTED.search(name)
        and _is_rising([float(text) for text in texts])
    ):
        return "counter"
    return "measure"


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
    chosen, number = plain, 1
    while chosen in used or chosen in RESERVED or not NAME.match(chosen):
        number += 1
        chosen = f"{plain}_{number}"
    used.add(chosen)
    return chosen


def _is_rising(values: Sequence[float]) -> bool:
    """Return whether numbers never fall, and rise somewhere."""
    return all(left <= right for left, right in pairwise(values)) and len(set(values)) > 1
