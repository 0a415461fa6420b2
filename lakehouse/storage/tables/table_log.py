"""Log of a Delta table: its properties, files, rows and bytes, read without an engine.

    _delta_log/00000000000000000012.json          what one commit added and removed
    _delta_log/00000000000000000010.checkpoint.parquet   everything up to a commit, so that older ones may go
    _delta_log/_last_checkpoint                   which of those is the newest

For looking only: whoever writes goes through Spark. Cost: the last checkpoint, and one small file per commit since it;
not how many commits the log still holds.
"""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from lakehouse.storage.atomic_files import read_once
from lakehouse.storage.damaged import naming
from lakehouse.storage.stores.store_path import Location, StorePath, entries_after
from lakehouse.storage.tables.table_files import source

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A column, and the least and the largest value that a row is asked to have in it, None for no such end.
Between = tuple[str, int, int | None]
# What is read of a checkpoint, by kind of action.
_OF_CHECKPOINT = {
    "metaData": ("metaData.id", "metaData.configuration"),
    "add": ("add.path", "add.size", "add.stats", "add.partitionValues"),
}
# Least and largest values, both included, of disjoint ranges that ascend.
Ranges = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class FileFacts:
    """Log entry of one file; no file is opened for it. ``spelt``: its path as the log spells it.

    ``stats``: its statistics as the log has them, read where they are asked for: most entries of a long log are
    only counted or named.
    """

    table: Location
    spelt: str
    size: int
    partition: Mapping[str, str | None]
    stats: str | None = field(compare=False)

    @cached_property
    def statistics(self) -> Mapping[str, Any]:
        """Rows, least and greatest values and nulls of the file, as its writer told them."""
        statistics: dict[str, Any] = json.loads(self.stats or "{}")
        return statistics

    @property
    def path(self) -> Location:
        """Location of the file."""
        return self.table / unquote(self.spelt)

    @property
    def rows(self) -> int:
        """Rows of the file, 0 where it came without their count."""
        return self.statistics.get("numRecords") or 0

    def ends(self, column: str) -> tuple[Any, Any]:
        """Return the least and the largest value of a column, Nones where the statistics lack one of them."""
        low = self.statistics.get("minValues", {}).get(column)
        high = self.statistics.get("maxValues", {}).get(column)
        return (None, None) if low is None or high is None else (low, high)

    def may_hold(self, between: Between | None) -> bool:
        """True if the file may have a row in between."""
        if between is None:
            return True
        (least, largest), (_, low, high) = self.ends(between[0]), between
        return least is None or (largest >= low and (high is None or least <= high))

    def tells_ends(self, columns: Sequence[str], between: Between | None) -> bool:
        """True if the statistics hold the extremes of some columns among the rows in between."""
        nulls = self.statistics.get("nullCount", {})
        if between is not None:
            (least, largest), (column, low, high) = self.ends(between[0]), between
            if least is None or nulls.get(column) != 0:
                return False
            if least < low or (high is not None and largest > high):
                return False
        all_null = self.statistics.get("numRecords")
        return all(self.ends(name)[0] is not None or nulls.get(name, -1) == all_null for name in columns)


@dataclass(frozen=True)
class TableFacts:
    """A table's current version and the files that it has."""

    version: int
    properties: Mapping[str, str]
    entries: Sequence[FileFacts]

    @property
    def files(self) -> dict[Location, int]:
        """The files with their bytes."""
        return {file.path: file.size for file in self.entries}

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.entries)

    @property
    def rows(self) -> int | None:
        """Rows of all files, None where one came without its count."""
        counts: list[int | None] = [file.statistics.get("numRecords") for file in self.entries]
        return None if None in counts else sum(file.rows for file in self.entries)


@dataclass(frozen=True)
class _Tail:
    """Checkpoint of a table, if there is one, and the commits since."""

    checkpoint: Location | None
    commits: Sequence[Location]

    @property
    def version(self) -> int | None:
        if self.commits:
            return int(self.commits[-1].stem)
        return None if self.checkpoint is None else int(self.checkpoint.name.partition(".")[0])


def _tail(table: Location) -> _Tail:
    """Return the end of a log; it is listed only where nothing leads to its end."""
    log = table / "_delta_log"
    version = _pointed_at(log / "_last_checkpoint")
    if version is not None:
        checkpoint = log / f"{version:020d}.checkpoint.parquet"
        if checkpoint.is_file():  # Entries go oldest first, so where it is there, those after it are.
            return _Tail(checkpoint, list(commits_after(table, version)))
    elif commit_at(table, 0).is_file():
        return _Tail(None, list(commits_after(table, -1)))
    last = max(log.glob("*.checkpoint.parquet"), default=None)
    first = 0 if last is None else int(last.name.partition(".")[0]) + 1
    return _Tail(last, [commit for commit in commits_of(table) if int(commit.stem) >= first])


def _pointed_at(pointer: Location) -> int | None:
    # Replacing it, Delta deletes it first.
    with suppress(FileNotFoundError):
        return int(json.loads(pointer.read_text("utf-8"))["version"])
    return None


def commits_of(table: Location) -> list[Location]:
    """Return the commits that the table's log still holds, oldest first, none where there is no table: a listing."""
    return sorted(path for path in (table / "_delta_log").glob("*.json") if path.stem.isdigit())


def commit_at(table: Location, version: int) -> Location:
    """Return where a commit is, if it is there."""
    return table / "_delta_log" / f"{version:020d}.json"


def commit_actions(commit: Location) -> list[dict[str, Any]]:
    """Return the actions of a commit. Raises FileNotFoundError when the log has it no more."""
    with naming(commit):
        return [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines() if line]


def added_files(table: Location, actions: Sequence[dict[str, Any]]) -> list[Location]:
    """Return the files that the actions of a commit add."""
    return [table / unquote(action["add"]["path"]) for action in actions if "add" in action]


def commits_after(table: Location, version: int) -> Iterator[Location]:
    """Yield the commits after one. Cost: a look for each, on a store a listing from there on."""
    if isinstance(table, StorePath):
        yield from entries_after(table / "_delta_log", version)
        return
    while (commit := commit_at(table, version + 1)).exists():
        yield commit
        version += 1


def table_id(table: Location) -> str | None:
    """Return what tells a table from one that is made anew in its place, None where there is none."""
    found = [each["metaData"]["id"] for each in _actions(_tail(table), "metaData") if each.get("metaData")]
    return found[-1] if found else None


def newest_version(table: Location) -> int | None:
    """Return the number of a table's newest commit, None where there is no table."""
    return _tail(table).version


def read_log(table: Location) -> TableFacts | None:
    """Return the table's current version by its log, None where there is no table."""
    tail = _tail(table)
    if tail.version is None:
        return None
    properties: dict[str, str] = {}
    files: dict[str, Mapping[str, Any]] = {}
    for action in _actions(tail, "metaData", "add"):
        if action.get("metaData"):  # a checkpoint has pairs, a commit an object
            properties = dict(action["metaData"].get("configuration") or {})
        if action.get("remove"):
            files.pop(action["remove"]["path"], None)
        if action.get("add"):
            files[action["add"]["path"]] = action["add"]
    entries = [
        # A checkpoint has pairs.
        FileFacts(table, path, added["size"], dict(added.get("partitionValues") or {}), added.get("stats"))
        for path, added in files.items()
    ]
    return TableFacts(tail.version, properties, entries)


def file_facts(table: Location, between: Between | None = None) -> list[FileFacts]:
    """Return the files that may have a row in between, by their statistics; none where there is no table."""
    log = read_log(table)
    return [file for file in log.entries if file.may_hold(between)] if log else []


def read_columns(
    table: Location, columns: Sequence[str], between: Between | None = None
) -> list[tuple[Any, ...]]:
    """Return some columns of a table's rows, none where there is no table; moments are in UTC, as Spark stores them.

    Files whose statistics rule a row out are not opened.
    """
    found: list[tuple[Any, ...]] = []
    for read in read_parts(table, columns, between):
        there = set(read.column_names)
        # A column that came to the table later has no values in older files.
        none = [None] * read.num_rows
        found += zip(*(_values(read[name]) if name in there else none for name in columns), strict=True)
    return found


def read_parts(table: Location, columns: Sequence[str], between: Between | None) -> Iterator[Any]:
    """Yield some columns of the rows in between as Arrow tables, one of each file, without those that a file lacks."""
    for path in files_between(table, between):
        yield _read_file(path, columns, between)


def files_between(table: Location, between: Between | None) -> list[Location]:
    """Return the files whose statistics let them have a row in between."""
    return [file.path for file in file_facts(table, between)]


def files_near(table: Location, column: str, ranges: Ranges) -> list[tuple[Location, int]]:
    """Return the files that may have a row of which a column lies in one of some ranges, and how many rows each has."""
    near = (file for file in file_facts(table) if any(file.may_hold((column, *each)) for each in ranges))
    return [(file.path, file.rows) for file in near]


def bounds(
    table: Location, columns: Sequence[str], between: Between | None = None
) -> list[tuple[int | None, int | None]]:
    """Return the least and the largest value of some columns of whole numbers; Nones where there is none.

    Files are opened only where their statistics do not tell: cost, as that of ``read_log``.
    """
    found: list[list[int]] = [[] for _ in columns]
    for file in file_facts(table, between):
        ends: list[Sequence[Any]] = [file.ends(name) for name in columns]
        if not file.tells_ends(columns, between):
            read = _read_file(file.path, columns, between)
            ends = [_values(read[name]) for name in columns]
        for values, more in zip(found, ends, strict=True):
            values += [value for value in more if value is not None]
    return [(min(values, default=None), max(values, default=None)) for values in found]


def _read_file(path: Location, columns: Sequence[str], between: Between | None) -> Any:
    from pyarrow import compute, parquet

    # Not by the reader's own filters, which load pandas: a second for a few rows.
    with naming(path), parquet.ParquetFile(source(path)) as file:
        if between is None:
            return file.read(columns=list(columns))
        column, low, high = between
        read = file.read(columns=list({*columns, column}))
    kept = compute.greater_equal(read[column], _scalar(low))
    if high is not None:
        kept = compute.and_(kept, compute.less_equal(read[column], _scalar(high)))
    return read.filter(kept)


def _scalar(number: int) -> Any:
    """Return a number as Arrow compares it, made of its bytes, as Arrow's own way of making one loads pandas."""
    from pyarrow import Array, int64, py_buffer

    return Array.from_buffers(int64(), 1, [None, py_buffer(struct.pack("=q", number))])[0]


def _values(column: Any) -> list[Any]:
    from pyarrow import int64, timestamp, types

    if not types.is_timestamp(column.type):
        values: list[Any] = column.to_pylist()
        return values
    # Turned into timestamps here, since pyarrow would load pandas for it.
    numbers = column.cast(timestamp("us", column.type.tz)).cast(int64()).to_pylist()
    return [None if number is None else _EPOCH + timedelta(microseconds=number) for number in numbers]


def read_rows(table: Location) -> list[dict[str, Any]]:
    """Return every row of a small table, none where there is no table; maps come as lists of pairs."""
    files = file_facts(table)
    if not files:
        return []
    import pyarrow.parquet

    return [row for file in files for row in pyarrow.parquet.read_table(source(file.path)).to_pylist()]


def _actions(tail: _Tail, *kinds: str) -> Iterator[dict[str, Any]]:
    """Yield what a log says, of its checkpoint only some kinds of actions."""
    if tail.checkpoint is not None:
        for kind in kinds:
            yield from _of_checkpoint(tail.checkpoint, kind)
    for commit in tail.commits:
        yield from commit_actions(commit)


@read_once(256, most_bytes=1_000_000)
def _of_checkpoint(checkpoint: Location, kind: str) -> Sequence[dict[str, Any]]:
    """Return the actions of a kind in a checkpoint; each is an object with that kind alone.

    A checkpoint never changes, and a publish alone looks at each log several times, so a process keeps what it read of
    small ones, of a few thousand files. Whoever reads actions must not change them.
    """
    from pyarrow import compute, parquet

    with naming(checkpoint), parquet.ParquetFile(source(checkpoint)) as file:
        column = file.read(columns=list(_OF_CHECKPOINT[kind]))[kind]
    # A row has an action of one kind; files that are gone may be many times those that are there.
    return tuple({kind: action} for action in column.filter(compute.is_valid(column)).to_pylist())
