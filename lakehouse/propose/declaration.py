"""A declaration as TOML with comments, of what a sample shows, and what nobody can be sure of."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lakehouse.config.checks import stream_problems, stream_refusals
from lakehouse.config.durations import format_duration
from lakehouse.config.problems import ConfigError
from lakehouse.config.stream import Stream
from lakehouse.propose.columns import Found, columns_of, is_named_like_key, time_columns
from lakehouse.propose.sample import NothingToRead, Sample
from lakehouse.propose.times import Time, event_time_of, zone_in_names

_MINUTE_US, _HOUR_US = 60_000_000, 3_600_000_000
_LEVELS = (
    (_MINUTE_US, ("1s for 1h", "1m for 2d", "1h for 1y", "1d forever")),
    (15 * _MINUTE_US, ("1m for 7d", "1h for 1y", "1d forever")),
    (24 * _HOUR_US, ("15m for 30d", "1h for 1y", "1d forever")),
)
_DAILY = ("1d forever",)
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
        source = {**self.table["source"], "path": str(folder.absolute() / self.table["source"]["path"])}
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
    if identity is None and measures:
        doubts.append(
            "no columns tell rows apart: a file that comes twice under another content counts twice"
        )
    table: dict[str, Any] = {"event_time": _event_time(time, own)}
    table |= {"identity": identity} if identity else {}
    table |= {"keys": keys} if keys else {}
    table |= {"measures": measures} if measures else {}
    table |= {"counters": counters} if counters else {}
    table |= {"groupings": [keys, []]} if keys else {}
    table["levels"] = list(next((levels for most, levels in _LEVELS if time.step_us < most), _DAILY))
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
    for skipped in range(_MOST_SKIPPED + 1):
        rows = sample.rows[skipped:]
        time = (
            event_time_of(Sample(sample.path, sample.format, sample.names, rows)) if len(rows) > 1 else None
        )
        if time is None:
            continue
        header = sample.source.get("header")
        if skipped and header not in ("none", "skip"):
            line = header["line"] if isinstance(header, dict) else 1
            data = header.get("data", line + 1) if isinstance(header, dict) else 2
            sample.source["header"] = {"line": line, "data": data + skipped}
            sample.rows = rows
        return time
    raise NothingToRead(
        f"{sample.path}: no column is a time in all rows; columns: {', '.join(sample.names)[:300]}. "
        "Declare it by hand: event_time with a format"
    )


def _identity(sample: Sample, times: Mapping[str, str], columns: Sequence[Found]) -> list[str] | None:
    """Return the time and the keys, if they tell the rows of the sample apart."""
    keys = [each for each in columns if each.role == "key"]
    places = [sample.names.index(name) for name in (*times, *(each.title for each in keys))]
    rows = [tuple(row[place] for place in places) for row in sample.rows]
    return [*times.values(), *(each.name for each in keys)] if len(set(rows)) == len(rows) else None


def _needless(sample: Sample, times: Mapping[str, str], columns: Sequence[Found]) -> Iterator[str]:
    """Yield that texts may be no key, where no row needs them to be told from others."""
    places = [sample.names.index(name) for name in times]
    if len({tuple(row[place] for place in places) for row in sample.rows}) == len(sample.rows):
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
    for key in ("event_time", "identity", "keys", "measures", "counters", "groupings", "levels"):
        if key in table:
            every_us = proposal.time.step_us if key == "levels" else 0
            yield f"{key} = {_toml(table[key])}" + (
                f"  # a row each {format_duration(every_us)}" if every_us else ""
            )
    yield f"source = {_toml(table['source'])}"
    for name, declared in table["columns"].items():
        yield f"columns.{name} = {_toml(declared)}"
    left = [each.title for each in proposal.columns if each.role == "left out"]
    if left:
        yield f"# left out: {', '.join(left)[:300]}"


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
