"""Log of a Delta table: its properties, files, rows and bytes, read without an engine.

    _delta_log/00000000000000000012.json          what one commit added and removed
    _delta_log/00000000000000000010.checkpoint.parquet   everything up to a commit, so that older ones may go
    _delta_log/_last_checkpoint                   which of those is the newest

For looking only: whoever writes goes through Spark. Cost: the last checkpoint, and one small file per commit since it;
not how many commits the log still holds.
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lakehouse.storage.damaged import naming
from lakehouse.storage.tables import checkpoint
from lakehouse.storage.tables.table_files import source
from lakehouse.storage.tables.tables_place import is_on_store

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A column, and the least and the largest value that a row is asked to have in it, None for no such end.
Between = tuple[str, int, int | None]
# Least and largest values, both included, of disjoint ranges that ascend.
Ranges = Sequence[tuple[int, int]]
# What the log says of each file, by the path as it writes it.
_Files = dict[str, Mapping[str, Any]]


@dataclass(frozen=True)
class TableFacts:
    """A table's current version: ``files`` with their bytes; ``rows`` is None where one came without its count."""

    version: int
    properties: Mapping[str, str]
    files: Mapping[Path, int]
    bytes: int
    rows: int | None


@dataclass(frozen=True)
class _Tail:
    """Checkpoint of a table, if there is one, and the commits since."""

    checkpoint: Path | None
    commits: Sequence[Path]

    @property
    def version(self) -> int | None:
        if self.commits:
            return int(self.commits[-1].stem)
        return None if self.checkpoint is None else int(self.checkpoint.name.partition(".")[0])


def _tail(table: Path) -> _Tail:
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


def _pointed_at(pointer: Path) -> int | None:
    # Replacing it, Delta deletes it first.
    with suppress(FileNotFoundError):
        return int(json.loads(pointer.read_text("utf-8"))["version"])
    return None


def commits_of(table: Path) -> list[Path]:
    """Return the commits that the table's log still holds, oldest first, none where there is no table: a listing."""
    return sorted(path for path in (table / "_delta_log").glob("*.json") if path.stem.isdigit())


def commit_at(table: Path, version: int) -> Path:
    """Return where a commit is, if it is there."""
    return table / "_delta_log" / f"{version:020d}.json"


def commits_after(table: Path, version: int) -> Iterator[Path]:
    """Yield the commits after one. Cost: a look for each, on a store a listing from there on."""
    if is_on_store(table):
        from lakehouse.storage.stores.store_path import entries_after

        yield from entries_after(table / "_delta_log", version)
        return
    while (commit := commit_at(table, version + 1)).exists():
        yield commit
        version += 1


def table_id(table: Path) -> str | None:
    """Return what tells a table from one that is made anew in its place, None where there is none."""
    found = [each["metaData"]["id"] for each in _actions(_tail(table), "metaData") if each.get("metaData")]
    return found[-1] if found else None


def newest_version(table: Path) -> int | None:
    """Return the number of a table's newest commit, None where there is no table."""
    return _tail(table).version


def read_log(table: Path) -> TableFacts | None:
    """Return what the table's log says, None where there is no table."""
    tail = _tail(table)
    if tail.version is None:
        return None
    properties, files = _replayed(tail)
    counts: list[Any] = [_statistics(added).get("numRecords") for added in files.values()]
    return TableFacts(
        version=tail.version,
        properties=properties,
        files={table / unquote(path): added["size"] for path, added in files.items()},
        bytes=sum(added["size"] for added in files.values()),
        rows=None if None in counts else sum(counts),
    )


def files_as_spelt(table: Path) -> tuple[int, dict[str, int]]:
    """Return a table's version, and the bytes of its files by path, as its log spells that."""
    tail = _tail(table)
    if tail.version is None:
        raise FileNotFoundError(2, "No table", str(table))
    return tail.version, {path: added["size"] for path, added in _replayed(tail)[1].items()}


def read_columns(
    table: Path, columns: Sequence[str], between: Between | None = None
) -> list[tuple[Any, ...]]:
    """Return some columns of a table's rows, none where there is no table; moments are in UTC, as Spark stores them.

    Files whose statistics rule a row out are not opened.
    """
    found: list[tuple[Any, ...]] = []
    for path, added in _replayed(_tail(table))[1].items():
        if between is None or _may_hold(_statistics(added), between):
            read = _read_file(table / unquote(path), columns, between)
            there = set(read.column_names)
            # A column that came to the table later has no values in older files.
            none = [None] * read.num_rows
            found += zip(*(_values(read[name]) if name in there else none for name in columns), strict=True)
    return found


def read_parts(table: Path, columns: Sequence[str], between: Between | None) -> Iterator[Any]:
    """Yield some columns of the rows in between as Arrow tables, one of each file, without those that a file lacks."""
    for path in files_between(table, between):
        yield _read_file(path, columns, between)


def files_between(table: Path, between: Between | None) -> list[Path]:
    """Return the files whose statistics let them have a row in between."""
    return [
        table / unquote(path)
        for path, added in _replayed(_tail(table))[1].items()
        if between is None or _may_hold(_statistics(added), between)
    ]


def files_near(table: Path, column: str, ranges: Ranges) -> list[tuple[Path, int]]:
    """Return the files that may have a row of which a column lies in one of some ranges, and how many rows each has."""
    found = []
    for path, added in _replayed(_tail(table))[1].items():
        stats = _statistics(added)
        if any(_may_hold(stats, (column, *each)) for each in ranges):
            found.append((table / unquote(path), stats.get("numRecords") or 0))
    return found


def most_rows(table: Path, between: Between | None = None) -> int:
    """Return how many rows the files have that may have one in between: no fewer than there are."""
    stats = (_statistics(added) for added in _replayed(_tail(table))[1].values())
    return sum(each.get("numRecords") or 0 for each in stats if between is None or _may_hold(each, between))


def files_with(table: Path, column: str, values: Sequence[int], between: Between) -> list[Path]:
    """Return the files that may hold a row with one of some values, in order, in a column, and which is in between."""
    found = []
    for path, added in _replayed(_tail(table))[1].items():
        stats = _statistics(added)
        least, largest = _ends(stats, column) or (values[0], values[-1])
        at = bisect_left(values, least)
        if at < len(values) and values[at] <= largest and _may_hold(stats, between):
            found.append(table / unquote(path))
    return found


def bounds(
    table: Path, columns: Sequence[str], between: Between | None = None
) -> list[tuple[int | None, int | None]]:
    """Return the least and the largest value of some columns of whole numbers; Nones where there is none.

    Files are opened only where their statistics do not tell: cost, as that of ``read_log``.
    """
    found: list[list[int]] = [[] for _ in columns]
    for path, added in _replayed(_tail(table))[1].items():
        stats = _statistics(added)
        if between is not None and not _may_hold(stats, between):
            continue
        statistics = _extremes(stats, columns) if between is None or _holds_only(stats, between) else None
        if statistics is None:
            read = _read_file(table / unquote(path), columns, between)
            statistics = [_values(read[name]) for name in columns]
        for values, more in zip(found, statistics, strict=True):
            values += [value for value in more if value is not None]
    return [(min(values, default=None), max(values, default=None)) for values in found]


def file_bounds(table: Path, columns: Sequence[str]) -> dict[Path, tuple[tuple[int | None, int | None], ...]]:
    """Return each file's least and largest value of some columns by its statistics; Nones where these do not tell."""
    ends = {
        table / unquote(path): [_ends(_statistics(added), column) or (None, None) for column in columns]
        for path, added in _replayed(_tail(table))[1].items()
    }
    return {path: tuple((low, high) for low, high in found) for path, found in ends.items()}


@dataclass(frozen=True)
class FileFacts:
    """Log entry of one file: values of the partition columns, rows, and the ends of some columns (or Nones)."""

    path: Path
    partition: Mapping[str, str | None]
    rows: int
    bounds: Mapping[str, tuple[int | None, int | None]]


def file_facts(table: Path, columns: Sequence[str]) -> list[FileFacts]:
    """Return what the log says of each file, with its least and largest value of some columns; no file is opened."""
    found = []
    for path, added in _replayed(_tail(table))[1].items():
        stats = _statistics(added)
        ends = {column: _ends(stats, column) or (None, None) for column in columns}
        bounds = {column: (low, high) for column, (low, high) in ends.items()}
        values = dict(added.get("partitionValues") or {})
        found.append(FileFacts(table / unquote(path), values, stats.get("numRecords") or 0, bounds))
    return found


def _statistics(added: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the log says of the values in a file, which may be nothing."""
    stats: Mapping[str, Any] = json.loads(added.get("stats") or "{}")
    return stats


def _extremes(stats: Mapping[str, Any], columns: Sequence[str]) -> list[list[Any]] | None:
    """Return the extremes of some columns in a file by its statistics, None where those lack one that has values."""
    found = []
    for column in columns:
        ends = _ends(stats, column)
        is_empty = stats.get("nullCount", {}).get(column, -1) == stats.get("numRecords")
        if not ends and not is_empty:
            return None
        found.append(ends)
    return found


def _ends(stats: Mapping[str, Any], column: str) -> list[Any]:
    """Return the least and the largest value of a column, nothing where the statistics lack them."""
    ends = [stats.get(bound, {}).get(column) for bound in ("minValues", "maxValues")]
    return [] if None in ends else ends


def _read_file(path: Path, columns: Sequence[str], between: Between | None) -> Any:
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


def _replayed(tail: _Tail) -> tuple[dict[str, str], _Files]:
    """Return a table's properties, and its files by path, as the log comes to them."""
    properties: dict[str, str] = {}
    files: _Files = {}
    for action in _actions(tail, "metaData", "add"):
        if action.get("metaData"):  # a checkpoint has pairs, a commit an object
            properties = dict(action["metaData"].get("configuration") or {})
        if action.get("remove"):
            files.pop(action["remove"]["path"], None)
        if action.get("add"):
            files[action["add"]["path"]] = action["add"]
    return properties, files


def _may_hold(stats: Mapping[str, Any], between: Between) -> bool:
    """Return whether a file may have a row in between."""
    column, low, high = between
    ends = _ends(stats, column)
    return not ends or (ends[1] >= low and (high is None or ends[0] <= high))


def _holds_only(stats: Mapping[str, Any], between: Between) -> bool:
    """Return whether all rows of a file are in between."""
    column, low, high = between
    ends = _ends(stats, column)
    if not ends or stats.get("nullCount", {}).get(column) != 0:
        return False
    return ends[0] >= low and (high is None or ends[1] <= high)


def read_rows(table: Path) -> list[dict[str, Any]]:
    """Return every row of a small table, none where there is no table; maps come as lists of pairs."""
    if (found := read_log(table)) is None or not found.files:
        return []
    import pyarrow.parquet

    return [row for path in found.files for row in pyarrow.parquet.read_table(source(path)).to_pylist()]


def _actions(tail: _Tail, *kinds: str) -> Iterator[dict[str, Any]]:
    """Yield what a log says, of its checkpoint only some kinds of actions."""
    if tail.checkpoint is not None:
        for kind in kinds:
            yield from checkpoint.actions(tail.checkpoint, kind)
    for commit in tail.commits:
        yield from _actions_of(commit)


def _actions_of(commit: Path) -> list[dict[str, Any]]:
    with naming(commit):
        return [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines()]
