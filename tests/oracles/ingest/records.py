"""A record's row, read by hand as docs/sources.md says: letter by letter, in fractions, with no code of the product."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

Texts = dict[str, str | None]
Row = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NO_VALUE = ("", "NA", "N/A", "NULL", "null")
SPECIAL = ("nan", "inf", "infinity")
DIGITS = "0123456789"
TRUE, FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
# The years 0 to 399 are as the years 400 to 799 are.
CYCLE, CYCLE_US = 400, 146_097 * 86_400 * 10**6
FIRST_US, LAST_US = (
    (datetime(*day, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1) for day in ((1, 1, 3), (9999, 12, 29))
)


class Wrong(Exception):
    """The reason for which a record is rejected."""


def csv_texts(line: bytes, header: Sequence[str], separator: str = ",", quote: str = '"') -> Texts:
    """Return the texts of a line of CSV, read letter by letter."""
    fields, text, at = list[str](), utf8(line), 0
    while True:
        field, at = csv_field(text, at, separator, quote)
        fields.append(field)
        if at == len(text):
            break
        at += 1
    if len(fields) != len(header):
        raise Wrong("malformed")
    known = (None if field in NO_VALUE else field for field in fields)
    return dict(zip(header, known, strict=True))


def csv_field(text: str, at: int, separator: str, quote: str) -> tuple[str, int]:
    """Return a field that begins at a place, and where it ends."""
    begin = at
    while at < len(text) and text[at] in " \t":
        at += 1
    if at == len(text) or text[at] != quote:
        end = text.find(separator, begin)
        end = len(text) if end < 0 else end
        return text[begin:end].strip(" \t"), end
    said, at = "", at + 1
    while text[at : at + 1] != quote or text[at + 1 : at + 2] == quote:
        if at >= len(text):
            raise Wrong("malformed")
        said += text[at]
        at += 2 if text[at] == quote else 1
    at += 1
    while text[at : at + 1] in (" ", "\t"):
        at += 1
    if at < len(text) and text[at] != separator:
        raise Wrong("malformed")
    return said.strip(" \t"), at


class Members(list[tuple[str, Any]]):
    """The members of an object, as they stand."""


def json_texts(line: bytes, names: Sequence[str]) -> Texts:
    """Return the texts of members of a JSON object."""

    def spelled(number: str) -> tuple[str]:
        return (number,)

    try:
        found = json.loads(
            utf8(line),
            object_pairs_hook=Members,
            parse_float=spelled,
            parse_int=spelled,
            parse_constant=spelled,
        )
    except ValueError:
        raise Wrong("malformed") from None
    if not isinstance(found, Members) or any(sum(m == name for m, _ in found) > 1 for name in names):
        raise Wrong("malformed")
    values = dict(found)
    return {name: None if values.get(name) is None else json_text(values[name]) for name in names}


def json_text(value: Any) -> str:
    """Return the text of a value of JSON."""
    if isinstance(value, str):
        return "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in value).strip(
            " \t"
        )
    return nested(value)


def nested(value: Any) -> str:
    """Return a value as JSON without blanks, numbers as they are written."""
    if isinstance(value, Members):
        return "{" + ",".join(f"{nested(name)}:{nested(each)}" for name, each in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(nested, value)) + "]"
    return str(value[0]) if isinstance(value, tuple) else json.dumps(value, ensure_ascii=False)


def utf8(line: bytes) -> str:
    """Return the text of a line."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise Wrong("bad_utf8") from None


def number(text: str) -> Fraction | None:
    """Return the number that a text is."""
    if len(text) > 1000:
        return None
    mantissa, mark, exponent = text.lower().partition("e")
    sign, digits = (mantissa[:1], mantissa[1:]) if mantissa[:1] in ("+", "-") else ("", mantissa)
    whole, _, part = digits.partition(".")
    if not whole + part or any(letter not in DIGITS for letter in whole + part) or digits.count(".") > 1:
        return None
    bare = exponent[1:] if exponent[:1] in ("+", "-") else exponent
    if mark and (not bare or any(letter not in DIGITS for letter in bare) or int(bare) > 999):
        return None
    size = Fraction(int(whole + part or "0"), 10 ** len(part)) * Fraction(10) ** int(exponent or 0)
    return -size if sign == "-" else size


def int_of(text: str) -> int | None:
    """Return a whole number of 64 bits."""
    found = number(text) if not any(letter in text for letter in ".eE") else None
    return int(found) if found is not None and -(2**63) <= found < 2**63 else None


def double_of(text: str) -> float | None:
    """Return the double that is nearest; an infinite one where that is too large."""
    bare = text[1:] if text[:1] in ("+", "-") else text
    if bare.lower() in SPECIAL:
        return math.nan
    return None if number(text) is None else float(text)


def decimal_of(text: str, places: int) -> Fraction | None:
    """Return a decimal of so many places, its last digit rounded, a half away from zero."""
    found = number(text)
    if found is None:
        return None
    units = math.floor(abs(found) * 10**places + Fraction(1, 2))
    return None if units >= 10**38 else Fraction(units if found >= 0 else -units, 10**places)


def truth_of(text: str) -> bool | None:
    """Return a truth."""
    known = {
        **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
        **dict.fromkeys(("f", "false", "n", "no", "0"), False),
    }
    return known.get(text.lower())


def time_of(text: str, unit: str, zone: str) -> tuple[int, str | None] | None:
    """Return microseconds, rounded down, and the reason for which a local time is none; None of what is no time."""
    if unit != "iso":
        found = number(text)
        micros = None if found is None else math.floor(found * {"s": 10**6, "ms": 1000, "us": 1}[unit])
        return None if micros is None or not -(2**63) <= micros < 2**63 else (micros, None)
    shown = iso(text)
    if shown is None:
        return None
    wall, offset = shown
    if offset is not None:
        return wall - offset, None
    if zone == "UTC":
        return wall, None
    return local(wall, ZoneInfo(zone))


def local(wall: int, zone: ZoneInfo) -> tuple[int, str | None]:
    """Return the first moment at which clocks show a time, or where none does, what they would have shown."""
    if not FIRST_US < wall < LAST_US:
        # Before the clocks of any zone were first changed; or at the end of all years, of which the rules are the same.
        near = wall + CYCLE_US if wall < 0 else wall - CYCLE_US
        found, why = local(near, zone)
        return found + wall - near, why
    fits = []
    at = EPOCH + timedelta(microseconds=wall)
    ahead = {(at + timedelta(days=days)).astimezone(zone).utcoffset() for days in (-1, 0, 1)}
    for offset in (each // timedelta(microseconds=1) for each in ahead if each is not None):
        if shown_by(wall - offset, zone) == wall:
            fits.append(wall - offset)
    if len(fits) == 1:
        return fits[0], None
    return (min(fits), "ambiguous_time") if fits else (wall, "skipped_time")


def shown_by(moment: int, zone: ZoneInfo) -> int:
    """Return what the clocks of a zone show at a moment."""
    shown = (EPOCH + timedelta(microseconds=moment)).astimezone(zone).replace(tzinfo=UTC)
    return (shown - EPOCH) // timedelta(microseconds=1)


def iso(text: str) -> tuple[int, int | None] | None:
    """Return the microseconds that clocks show, and the offset that is named, of a time of ISO 8601."""
    date, clock = text[:10], text[11:]
    if len(text) > 10 and (text[10] not in "T " or not clock):
        return None
    clock, offset = split_offset(clock)
    if not date.isascii() or (offset is None and len(text) > 10 and not clock):
        return None
    whole, point, part = clock.partition(".")
    parts = whole.split(":") if clock else ["0", "0", "0"]
    if len(parts) not in (2, 3) or (point and len(parts) != 3) or (point and not set(part) <= set(DIGITS)):
        return None
    if any(not 1 <= len(each) <= 2 or not set(each) <= set(DIGITS) for each in parts) or (point and not part):
        return None
    clock_text = ":".join(each.zfill(2) for each in (*parts, "0")[:3])
    try:
        year = int(date[:4]) + CYCLE * (date[:4] == "0000")
        moment = datetime.strptime(f"{year:04}-{date[5:7]}-{date[8:]}T{clock_text}", "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return None
    if date[4] + date[7] != "--" or not set(date.replace("-", "")) <= set(DIGITS) or int(parts[-1]) > 59:
        return None
    micros = (moment.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1) - CYCLE_US * (
        date[:4] == "0000"
    )
    away = None if offset is None else minutes_of(offset)
    if offset is not None and away is None:
        return None
    return micros + int((part + "000000")[:6]), None if away is None else away * 60_000_000


def split_offset(clock: str) -> tuple[str, str | None]:
    """Return a time of day and the offset behind it."""
    for mark in ("Z", "z", "UTC"):
        if clock.endswith(mark):
            return clock.removesuffix(mark).removesuffix(" "), "+00:00"
    at = max(clock.rfind("+"), clock.rfind("-"))
    return (clock, None) if at < 0 else (clock[:at].removesuffix(" "), clock[at:])


def minutes_of(offset: str) -> int | None:
    """Return the minutes of an offset such as -02:30, -0230 or -02."""
    digits = offset[1:].replace(":", "", 1) if offset[3:4] == ":" else offset[1:]
    if (
        len(digits) not in (2, 4)
        or not set(digits) <= set(DIGITS)
        or (offset[3:4] == ":" and len(digits) == 2)
    ):
        return None
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    total = hours * 60 + minutes
    return None if minutes > 59 or total > 18 * 60 else (-total if offset[0] == "-" else total)


READERS: dict[str, Callable[[str], Any]] = {"int": int_of, "double": double_of, "boolean": truth_of}


def value(text: str | None, kind: str, places: int | None) -> Any:
    """Return the value of a column, None where it is missing."""
    if text is None or kind == "string":
        return text
    found = READERS[kind](text) if kind in READERS else decimal_of(text, places or 0)
    is_special = text.lower().lstrip("+-") in SPECIAL and text[1:2] not in ("+", "-")
    if found is None and not (is_special and kind in ("int", "decimal")):
        raise Wrong("bad_value")
    return None if isinstance(found, float) and not math.isfinite(found) else found
