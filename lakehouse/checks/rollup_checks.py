"""The rollup's nodes -> a frame of deviations: one row per level and grouping.

Levels are compared over the time that the finer one keeps. Its horizon H is a multiple of the coarser width, so
no node is cut:

    level 2   [--------)[--------)[--------)[--------)
    level 1             [--)[--)[--)[--)[--)[--)[--)[--
                        H                     rows from here on must be equal

Partial nodes need no combining, for all that is compared adds up. So each file is measured once, since files never
change, and the table is the sum of its files. Cost: files that no check has seen, and of each level the two that a
horizon passes through.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lakehouse.checks.file_figures import DISORDERS, Measured, Row
from lakehouse.config.stream import Stream
from lakehouse.spark.deviations import Frame


def unmeasured(files: Iterable[str], known: Measured, horizons: Sequence[int]) -> set[str]:
    """Return the files of which it is not known what they measure, or how many of their rows levels keep."""
    return {
        path
        for path in files
        if path not in known
        or any(
            row["start_us_min"] < start <= row["start_us_max"]
            for row in known[path]
            for start in _starts(row["level"], horizons).values()
        )
    }


def rollup_frame(stream: Stream, horizons: Sequence[int], measured: Measured, accepted: int) -> Frame:
    """Return the frame of a rollup's files, whose levels keep nodes from ``horizons`` on."""
    rows = list(_rows(stream, _by_level(measured, horizons), accepted))
    return Frame("rollup", ("level", "grouping"), rows)


def _by_level(measured: Measured, horizons: Sequence[int]) -> dict[tuple[int, int], Row]:
    """Add up the files by level and grouping; rows where a level is kept, and where the finer one is."""
    found: dict[tuple[int, int], Row] = {}
    for row in (row for rows in measured.values() for row in rows if row["level"] > 0):
        own = found.setdefault((row["level"], row["grouping"]), Row(dict.fromkeys(DISORDERS, 0)))
        for name in DISORDERS:
            own[name] += row[name]
        for name, start in _starts(row["level"], horizons).items():
            own[name] = own.get(name, 0) + _rows_from(row, name, start)
    return found


def _starts(level: int, horizons: Sequence[int]) -> Mapping[str, int]:
    """Return from where on rows of a level are counted."""
    if not 0 < level <= len(horizons):
        return {}
    finer = {"rows_where_finer": horizons[level - 2]} if level > 1 else {}
    return {"kept_rows": horizons[level - 1], **finer}


def _rows_from(row: Mapping[str, Any], name: str, start: int) -> int:
    """Return how many rows the nodes of a file, of one level and grouping, hold from a start on."""
    if row["start_us_min"] >= start:
        return int(row["rows"] or 0)
    return int(row[name] or 0) if row["start_us_max"] >= start else 0


def _rows(stream: Stream, found: Mapping[tuple[int, int], Row], accepted: int) -> Iterator[Row]:
    top = len(stream.levels)
    declared = [(level, grouping) for level in range(1, top + 1) for grouping in range(len(stream.groupings))]
    for level, grouping in sorted({*declared, *found}):
        row = found.get((level, grouping), {})
        finer = found.get((level - 1, grouping), {})
        is_declared = (level, grouping) in declared
        counts_all = level == top and stream.levels[-1].keep_us is None
        has_finer = is_declared and level > 1
        yield {
            "level": level,
            "grouping": grouping,
            "undeclared": int(not is_declared),
            "gap_to_finer": _gap(row, "rows_where_finer", finer.get("kept_rows") or 0) if has_finer else 0,
            "gap_to_accepted": _gap(row, "kept_rows", accepted) if is_declared and counts_all else 0,
            **{name: row.get(name, 0) for name in DISORDERS},
        }


def _gap(row: Mapping[str, Any], name: str, expected: int) -> int:
    return abs(int(row.get(name) or 0) - expected)
