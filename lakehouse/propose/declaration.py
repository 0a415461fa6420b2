"""A declaration as TOML with comments, of what a sample shows, and what nobody can be sure of."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lakehouse.config.checks import stream_problems, stream_refusals
from lakehouse.config.durations import format_duration
from lakehouse.config.problems import ConfigError
from lakehouse.config.stream import Stream
from lakehouse.propose.columns import Found, columns_of, has_sides, is_named_like_key, time_columns
from lakehouse.propose.sample import NothingToRead, Sample
from lakehouse.propose.times import Time, event_time_of, zone_column, zone_in_names

_MINUTE_US, _HOUR_US, _DAY_US = 60_000_000, 3_600_000_000, 86_400_000_000
_DAILY = ("1d", None)
# By the step of rows: widths, and for how many days each is kept at least.
_LEVELS = (
    (_MINUTE_US, (("1s", 1 / 24), ("1m", 2), ("1h", 365), _DAILY)),
    (15 * _MINUTE_US, (("1m", 7), ("1h", 365), _DAILY)),
    (_HOUR_US, (("15m", 30), ("1h", 365), _DAILY)),
    (_DAY_US, (("1h", 365), _DAILY)),
)
# A level is kept for a whole history of so many days, since it has few nodes then.
_MOST_DAYS = {"1m": 92, "15m": 1830, "1h": 9150}
_STEPS = ((_DAY_US, "d"), (_HOUR_US, "h"), (_MINUTE_US, "m"), (1_000_000, "s"), (1_000, "ms"))
_OLD = ["1850-01-01", "2100-01-01"]
_MOST_VALUES = 100
# Up to this share, rows that are equal throughout were sent twice; more of them are events of their own.
_MOST_TWICE = 0.01
_WITHOUT_OFFSET = "times have no offset: they are read as UTC unless timezone says where the clock is"
# Lines of units or widths that may stand between names and data.
_MOST_SKIPPED = 3


@dataclass(frozen=True)
class Proposal:
    """A declaration of a stream: its name, its table, its columns, and what is not sure."""

    name: str
    sample: Sample
    time: Time
    columns: Sequence[Found]
    table: Mapping[str, Any]
    doubts: Sequence[str]

    def stream(self, folder: Path) -> Stream:
        """Return the stream as a configuration in a folder declares it.

        Raises ConfigError when its zone, or what was found, is none that a declaration can have.
        """
        source = dict(self.table["source"])
        if "path" in source:
            source["path"] = str(folder.absolute() / source["path"])
        table: dict[str, Any] = {**self.table, "name": self.name, "source": source}
        try:
            stream = Stream.model_validate(table)
        except ValidationError as error:
            raise ConfigError(str(self.sample.path), stream_refusals(self.name, table, error)) from None
        if problems := stream_problems(stream):
            raise ConfigError(str(self.sample.path), problems)
        return stream

    def toml(self) -> str:
        """Return the declaration with comments."""
        return "\n".join(_lines(self)) + "\n"


def proposal_of(
    name: str, sample: Sample, path: str, timezone: str = "", others: Sequence[Sample] = ()
) -> Proposal:
    """Return the declaration of a file's kind; ``path``: what the source reads, ``timezone``: of the clock, if known.

    ``others``: samples of more files of the kind; where they disagree is not sure.

    Raises NothingToRead when no column is a time.
    """
    time = _timed(sample)
    in_names = zone_in_names(time.names) if time.lacks_offset else None
    if timezone or in_names:
        time.declared["timezone"] = timezone or in_names
    elif time.lacks_offset and (of_rows := zone_column(sample)):
        time.declared["timezone_column"] = of_rows
    elif time.lacks_offset:
        time.doubts.append(_WITHOUT_OFFSET)
    own = time_columns(time.names)
    columns = columns_of(sample, own, time.others)
    keys, measures, counters = (
        [each.name for each in columns if each.role in roles]
        for roles in (("key",), ("measure", "counter"), ("counter",))
    )
    doubts = [*sample.doubts, *time.doubts]
    doubts += [
        f"{each.title}: {doubt}" for each in columns if each.role != "left out" for doubt in each.doubts
    ]
    doubts += [doubt for other in others for doubt in _differences(sample, time, columns, own, other)]
    identity = _identity(sample, own, columns)
    doubts += _needless(sample, own, columns)
    if identity and (twice := len(sample.rows) - len(_distinct(sample))):
        doubts.append(f"{twice} of {len(sample.rows):,} rows are there twice: they count once")
    if identity is None and measures:
        doubts.append(
            "no columns tell rows apart: a file that comes twice under another content counts twice"
        )
    table: dict[str, Any] = {"event_time": _event_time(time, own)} | _lateness(time)
    table |= {"identity": identity} if identity else {}
    table |= {"keys": keys} if keys else {}
    table |= {"measures": measures} if measures else {}
    table |= {"counters": counters} if counters else {}
    table |= {"groupings": _groupings(sample, columns)} if keys else {}
    table["levels"] = _levels(time)
    table |= {"event_time_bounds": _OLD} if time.is_old else {}
    table["source"] = {"path": path, "format": sample.format} | sample.source
    table["columns"] = _declared_columns(columns, own, identity or [])
    return Proposal(name, sample, time, columns, table, doubts)


def _differences(
    sample: Sample, time: Time, columns: Sequence[Found], own: Mapping[str, str], other: Sample
) -> Iterator[str]:
    """Yield in what another file of the kind is not as the first."""
    file = other.path.name
    gone, new = set(sample.names) - set(other.names), set(other.names) - set(sample.names)
    if gone or new:
        parts = [("lacks", gone), ("has besides", new)]
        parted = "; ".join(f"{word} {', '.join(sorted(each))[:200]}" for word, each in parts if each)
        yield f"{file} {parted}"
        return
    if (other.format, other.source) != (sample.format, sample.source):
        yield f"{file} is cut by {other.source or other.format}, the first file by {sample.source or sample.format}"
    with suppress(NothingToRead):
        declared = {key: value for key, value in _timed(other).declared.items() if key != "timezone"}
        if declared != {key: value for key, value in time.declared.items() if key != "timezone"}:
            yield f"the event time of {file} is {declared}"
    types = {each.title: each.declared["type"] for each in columns}
    for each in columns_of(other, own):
        if each.declared["type"] != types[each.title] and any(other.column(each.title)):
            yield f"{each.title} is {each.declared['type']} in {file}, {types[each.title]} in the first file"


def _timed(sample: Sample) -> Time:
    """Return the event time; where lines of units stand before the data, they become part of the head."""
    for is_sure, skipped in product((True, False), range(_MOST_SKIPPED + 1)):
        rows = sample.rows[skipped:]
        own = Sample(sample.path, sample.format, sample.names, rows)
        time = event_time_of(own, is_sure) if len(rows) > min(skipped, 1) else None
        if time is None:
            continue
        header = sample.source.get("header")
        if skipped and header not in ("none", "skip"):
            line = header["line"] if isinstance(header, dict) else 1
            data = header.get("data", line + 1) if isinstance(header, dict) else 2
            sample.source["header"] = {"line": line, "data": data + skipped}
            sample.rows = rows
        return time
    lists = "".join(f"; {doubt}" for doubt in sample.doubts if doubt.startswith("lists"))
    raise NothingToRead(
        f"{sample.path}: no column is a time in all rows; columns: {', '.join(sample.names)[:300] or 'none'}{lists}. "
        "Declare it by hand: event_time with a format"
    )


def _identity(sample: Sample, times: Mapping[str, str], columns: Sequence[Found]) -> list[str] | None:
    """Return the time and as few keys as tell the rows of the sample apart, those first that are named like keys."""
    if has_sides(sample.names):
        # Flows of two sides may begin at once, and be of one size.
        return ["*"]
    keys = [each for each in columns if each.role == "key"]
    named = [each for each in keys if is_named_like_key(each.title)]
    numbers = [each for each in columns if each.role == "kept" and each.title not in times]
    for chosen in (named, keys, [*keys, *numbers]):
        if not _repeats(sample, [*times, *(each.title for each in chosen)]):
            return [*times.values(), *(each.name for each in chosen)]
    return None


def _repeats(sample: Sample, names: Sequence[str]) -> int:
    """Return how many rows of a sample have the values of another one; of few that are equal throughout one counts."""
    places, rows = [sample.names.index(name) for name in names], _distinct(sample)
    return len(rows) - len({tuple(row[place] for place in places) for row in rows})


def _distinct(sample: Sample) -> Collection[tuple[str, ...]]:
    """Return the rows of a sample, without those that came twice where these are few."""
    rows = set(sample.rows)
    return rows if len(sample.rows) - len(rows) <= _MOST_TWICE * len(rows) else sample.rows


def _groupings(sample: Sample, columns: Sequence[Found]) -> list[list[str]]:
    """Return all keys together; where hardly a row shares them, each of few values, and none."""
    keys = [each for each in columns if each.role == "key"]
    rows = len(_distinct(sample))
    if len(keys) == 1 or 3 * (rows - _repeats(sample, [each.title for each in keys])) <= rows:
        return [[each.name for each in keys], []]
    few = [each.name for each in keys if len(set(sample.column(each.title))) <= _MOST_VALUES]
    return [*([name] for name in few), []]


def _levels(time: Time) -> list[str]:
    """Return levels by the step of rows, kept for the history that there is."""
    levels = next((levels for most, levels in _LEVELS if time.step_us < most), (_DAILY,))
    days = time.span_us / _DAY_US
    kept = []
    for width, least in levels:
        most = _MOST_DAYS.get(width, 0)
        span = days if least is not None and least < days <= most else 0
        kept.append(f"{width} {'forever' if least is None else 'for ' + _spelt(max(least, span))}")
    return kept


def _spelt(days: float) -> str:
    """Return a time that is no less, in hours, days or whole years.

    >>> _spelt(1 / 24), _spelt(3.2), _spelt(400)
    ('1h', '4d', '2y')
    """
    return f"{ceil(days / 365)}y" if days >= 365 else f"{ceil(days)}d" if days >= 1 else f"{ceil(days * 24)}h"


def _needless(sample: Sample, times: Mapping[str, str], columns: Sequence[Found]) -> Iterator[str]:
    """Yield that texts may be no key, where no row needs them to be told from others."""
    if not _repeats(sample, list(times)):
        for each in columns:
            if each.role == "key" and each.declared["type"] == "string" and not is_named_like_key(each.title):
                yield f"{each.title}: texts that come again are read as a key, but times alone tell rows apart"


def _event_time(time: Time, own: Mapping[str, str]) -> dict[str, Any]:
    """Return the event time; without a line of names its columns are those that have its places."""
    if not all(name.isdigit() for name in time.names):
        return time.declared
    names = [own[name] for name in time.names]
    place = {"columns": names} if len(names) > 1 else {"column": names[0]}
    return place | {key: value for key, value in time.declared.items() if key not in ("column", "columns")}


def _lateness(time: Time) -> dict[str, Any]:
    """Return when rows arrived, and how late they are to be expected where a day is not enough."""
    if time.arrival is None or time.arrival.names[0].isdigit():
        return {}
    zone = {key: time.declared[key] for key in ("timezone", "timezone_column") if key in time.declared}
    declared = {"arrival_time": time.arrival.declared | (zone if time.arrival.lacks_offset else {})}
    late = time.most_late_us / _DAY_US
    return declared | ({"latest": _spelt(late)} if late > 1 else {})


def _declared_columns(
    columns: Sequence[Found], times: Mapping[str, str], identity: Sequence[str]
) -> dict[str, Any]:
    declared: dict[str, Any] = {}
    for name, own in times.items():
        place = {"position": int(name)} if name.isdigit() else {"path": name} if own != name else {}
        if own in identity or name.isdigit():
            declared[own] = {"type": "string"} | place if place else "string"
    for each in columns:
        if each.role != "left out":
            declared[each.name] = each.declared if len(each.declared) > 1 else each.declared["type"]
    return declared


def _lines(proposal: Proposal) -> Iterable[str]:
    table = proposal.table
    yield f"[streams.{proposal.name}]"
    for doubt in proposal.doubts:
        yield f"# not sure: {doubt}"
    for key in table:
        if key not in ("source", "columns"):
            every_us = proposal.time.step_us if key == "levels" else 0
            yield f"{key} = {_toml(table[key])}" + (
                f"  # a row each {_rounded(every_us)}" if every_us else ""
            )
    yield f"source = {_toml(table['source'])}"
    for name, declared in table["columns"].items():
        yield f"columns.{name} = {_toml(declared)}"
    left = [each.title for each in proposal.columns if each.role == "left out"]
    if left:
        yield f"# left out: {', '.join(left)[:300]}"


def _rounded(step_us: int) -> str:
    """Return a duration in the largest unit that it has ten of.

    >>> _rounded(609_932_000), _rounded(86_400_000_000), _rounded(1_547_007)
    ('10m', '1d', '1547ms')
    """
    unit_us, name = next(((us, name) for us, name in _STEPS if step_us >= 10 * us), (1, "us"))
    whole = f"{round(step_us / unit_us)}{name}"
    return whole if step_us % unit_us else format_duration(step_us)


def _toml(value: Any) -> str:
    """Return a value of TOML in one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {_toml(each)}" for name, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return (
        name if name.replace("_", "").isalnum() and name.isascii() else json.dumps(name, ensure_ascii=False)
    )
