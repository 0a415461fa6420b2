"""What the log of a Delta table says: its properties, files, rows and bytes, read without an engine.

    _delta_log/00000000000000000012.json          what one commit added and removed
    _delta_log/00000000000000000010.checkpoint.parquet   everything up to a commit, so that older ones may go

For looking only: whoever writes goes through Spark. Cost: one small file per commit since the last checkpoint.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# A column, and the least and the largest value that a row is asked to have in it, None for no such end.
Between = tuple[str, int, int | None]
# What the log says of each file, by the path as it writes it.
_Files = dict[str, Mapping[str, Any]]


@dataclass(frozen=True)
class TableFacts:
    """A table's current version: ``files`` with their bytes; ``rows`` is None where one came without its count.

    ``removed`` are files of earlier versions that the log still knows, with when they left, in milliseconds.
    """

    version: int
    properties: Mapping[str, str]
    files: Mapping[Path, int]
    removed: Mapping[Path, int]
    bytes: int
    rows: int | None
    log_entries: int


def commits_of(table: Path) -> list[Path]:
    """Return the commits that the table's log still holds, oldest first; none where there is no table."""
    return sorted(path for path in (table / "_delta_log").glob("*.json") if path.stem.isdigit())


# What ``Commits`` says of a table that is not there.
NO_TABLE = (-1, 0)


class Commits:
    """The newest commits of some tables, followed one by one: asking again costs a look at a file or two per table.

    Two equal answers mean that none of the tables has changed between them.
    """

    def __init__(self, *tables: Path) -> None:
        self._tables = tables
        self._versions = [-1] * len(tables)

    def __call__(self) -> tuple[tuple[int, int], ...]:
        """Return version and time of each table's newest commit, ``NO_TABLE`` where there is none."""
        self._versions = [self._newest(*pair) for pair in zip(self._tables, self._versions, strict=True)]
        return tuple((v, self._time(t, v)) for t, v in zip(self._tables, self._versions, strict=True))

    def _newest(self, table: Path, version: int) -> int:
        if version < 0 or not _commit(table, version).exists():
            # Not seen before, or made anew in the meantime.
            version = max((int(path.stem) for path in commits_of(table)), default=-1)
        while version >= 0 and _commit(table, version + 1).exists():
            version += 1
        return version

    @staticmethod
    def _time(table: Path, version: int) -> int:
        return _commit(table, version).stat().st_mtime_ns if version >= 0 else 0


def _commit(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020d}.json"


def files_added(table: Path, after: Path, writer: str) -> list[Path] | None:
    """Return the data files that a writer's commit added, of those that came after another; None where there is none.

    Others may have committed in between: a merge, for one.
    """
    for commit in (path for path in commits_of(table) if path.name > after.name):
        actions = list(_actions_of(commit))
        if any((action.get("txn") or {}).get("appId") == writer for action in actions):
            return [table / unquote(action["add"]["path"]) for action in actions if action.get("add")]
    return None


def read_log(table: Path) -> TableFacts | None:
    """Return what the table's log says, None where there is no table."""
    commits = commits_of(table)
    if not commits:
        return None
    properties, files, removed = _replayed(table, commits)
    counts = [json.loads(added.get("stats") or "{}").get("numRecords") for added in files.values()]
    return TableFacts(
        version=int(commits[-1].stem),
        properties=properties,
        files={table / unquote(path): added["size"] for path, added in files.items()},
        removed={table / unquote(path): left.get("deletionTimestamp") or 0 for path, left in removed.items()},
        bytes=sum(added["size"] for added in files.values()),
        rows=None if None in counts else sum(counts),
        log_entries=len(commits),
    )


def read_columns(
    table: Path, columns: Sequence[str], between: Between | None = None
) -> list[tuple[Any, ...]]:
    """Return some columns of a table's rows, none where there is no table.

    Moments are in UTC, as Spark stores them, whether or not the file says so.
    Files whose statistics rule a row out are not opened.
    """
    commits = commits_of(table)
    if not commits:
        return []
    found: list[tuple[Any, ...]] = []
    for path, added in _replayed(table, commits)[1].items():
        if between is None or _may_hold(added, between):
            read = _read_file(table / unquote(path), columns, between)
            found += zip(*(_values(read[name]) for name in columns), strict=True)
    return found


def bounds(
    table: Path, columns: Sequence[str], between: Between | None = None
) -> list[tuple[int | None, int | None]]:
    """Return the least and the largest value of some columns of whole numbers; Nones where there is none.

    Files are opened only where their statistics do not tell: cost, as that of ``read_log``.
    """
    commits = commits_of(table)
    found: list[list[int]] = [[] for _ in columns]
    for path, added in (_replayed(table, commits)[1] if commits else {}).items():
        if between is not None and not _may_hold(added, between):
            continue
        told = _extremes(added, columns) if between is None or _holds_only(added, between) else None
        if told is None:
            read = _read_file(table / unquote(path), columns, between)
            told = [_values(read[name]) for name in columns]
        for values, more in zip(found, told, strict=True):
            values += [value for value in more if value is not None]
    return [(min(values, default=None), max(values, default=None)) for values in found]


def _extremes(added: Mapping[str, Any], columns: Sequence[str]) -> list[list[Any]] | None:
    """Return the extremes of some columns in a file by its statistics, None where those lack one that has values."""
    stats = json.loads(added.get("stats") or "{}")
    found = []
    for column in columns:
        ends = _ends(stats, column)
        is_empty = stats.get("nullCount", {}).get(column, -1) == stats.get("numRecords")
        if not ends and not is_empty:
            return None
        found.append(ends)
    return found


def _ends(stats: Mapping[str, Any], column: str) -> list[Any]:
    """Return the least and the largest value of a column, nothing where they are not told."""
    ends = [stats.get(bound, {}).get(column) for bound in ("minValues", "maxValues")]
    return [] if None in ends else ends


def _read_file(path: Path, columns: Sequence[str], between: Between | None) -> Any:
    from pyarrow import compute, parquet

    # Not by the reader's own filters, which load pandas: a second for a few rows.
    with parquet.ParquetFile(path) as file:
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
    # Turned into moments here, as pyarrow would load pandas for it.
    numbers = column.cast(timestamp("us", column.type.tz)).cast(int64()).to_pylist()
    return [None if number is None else _EPOCH + timedelta(microseconds=number) for number in numbers]


def _replayed(table: Path, commits: list[Path]) -> tuple[dict[str, str], _Files, _Files]:
    """Return the table's properties, its files and those that left, by path, as the log comes to them."""
    properties: dict[str, str] = {}
    files: _Files = {}
    removed: _Files = {}
    for action in _actions(table / "_delta_log", commits):
        if action.get("metaData"):
            properties = dict(action["metaData"].get("configuration") or {})
        if action.get("remove"):
            files.pop(action["remove"]["path"], None)
            removed[action["remove"]["path"]] = action["remove"]
        if action.get("add"):
            files[action["add"]["path"]] = action["add"]
    return properties, files, removed


def _may_hold(added: Mapping[str, Any], between: Between) -> bool:
    """Tell if a file may have a row in between."""
    column, low, high = between
    ends = _ends(json.loads(added.get("stats") or "{}"), column)
    return not ends or (ends[1] >= low and (high is None or ends[0] <= high))


def _holds_only(added: Mapping[str, Any], between: Between) -> bool:
    """Tell if a file has no row but in between."""
    column, low, high = between
    stats = json.loads(added.get("stats") or "{}")
    ends = _ends(stats, column)
    if not ends or stats.get("nullCount", {}).get(column) != 0:
        return False
    return ends[0] >= low and (high is None or ends[1] <= high)


def read_rows(table: Path) -> list[dict[str, Any]]:
    """Return every row of a small table, none where there is no table; maps come as lists of pairs."""
    found = read_log(table)
    if found is None or not found.files:
        return []
    import pyarrow.parquet

    return [row for path in found.files for row in pyarrow.parquet.read_table(path).to_pylist()]


def _actions(log: Path, commits: list[Path]) -> Iterator[dict[str, Any]]:
    checkpoint = max(log.glob("*.checkpoint.parquet"), default=None)
    first = 0
    if checkpoint is not None:
        yield from _checkpointed(checkpoint)
        first = int(checkpoint.name.partition(".")[0]) + 1
    for commit in commits:
        if int(commit.stem) >= first:
            yield from _actions_of(commit)


def _actions_of(commit: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, commit.read_text(encoding="utf-8").splitlines())


def _checkpointed(checkpoint: Path) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet

    columns = ["metaData", "add", "remove"]
    for action in pyarrow.parquet.read_table(checkpoint, columns=columns).to_pylist():
        if action["metaData"]:
            action["metaData"]["configuration"] = dict(action["metaData"]["configuration"] or [])
        yield action
