"""Rules about keys say the same of what came since a check and of what it kept as of all nodes read again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import Schema
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.checks.key_nodes import Nodes
from lakehouse.checks.table_rows import TableRows
from lakehouse.checks.time_nodes import Keeping, Meeting
from lakehouse.engine.local import LocalEngine
from lakehouse.storage.kept_nodes import KeptNodes
from lakehouse.storage.tables.open_tables import opened
from lakehouse.storage.tables.table_commits import commit, create_table, write_arrow
from lakehouse.storage.tables.table_reads import read_between

PER, OVER = 100, 300
LONG = pa.int64()
NODES = pa.schema(
    [
        *(("level", pa.int32()), ("grouping", pa.int32()), ("start_us", LONG), ("meter", pa.string())),
        *(("site", LONG), ("last_us", LONG), ("energy__n", LONG), ("energy__max", LONG)),
        *((f"energy__{part}_us", LONG) for part in ("first", "last")),
        *((f"energy__{part}", pa.float64()) for part in ("first", "last", "drops_low", "drops_high")),
    ]
)
Reading = tuple[str | None, int, int, int]


def nodes_of(readings: list[Reading], width: int) -> pa.Table:
    """Return partial nodes of a batch's readings, of two levels."""
    found = []
    for level, own in ((1, width), (2, PER * 10)):
        groups = defaultdict[Any, list[tuple[int, int]]](list)
        for meter, site, time, value in readings:
            groups[meter, site, time - time % own].append((time, value))
        for (meter, site, start), values in groups.items():
            values.sort()
            falls = float(sum(a[1] for a, b in pairwise(values) if b[1] < a[1]))
            ends = {"energy__first_us": values[0][0], "energy__last_us": values[-1][0]}
            node = {"level": level, "grouping": 0, "start_us": start, "meter": meter, "site": site}
            node |= {"last_us": values[-1][0], "energy__n": len(values), **ends}
            node |= {"energy__first": values[0][1], "energy__last": values[-1][1]}
            node |= {"energy__drops_low": falls, "energy__drops_high": falls}
            found.append(node | {"energy__max": max(value for _, value in values)})
    return pa.Table.from_pylist(found, NODES)


class Rollup:
    """A table of nodes, and what rules keep of it."""

    def __init__(self, folder: Path) -> None:
        self.table, self.index = folder / "rollup", folder / "index.json"
        self.kept = KeptNodes(self.index, folder / "kept")
        create_table(self.table, Schema.from_arrow(NODES).to_json())

    def append(self, nodes: pa.Table) -> None:
        with opened(self.table) as known:
            commit(known, self.table, write_arrow(known, self.table, nodes))

    def rewrite(self, nodes: pa.Table, is_change: bool) -> None:
        """Replace all files by one."""
        removed = TableRows.of(self.table).names
        with opened(self.table) as known:
            commit(known, self.table, write_arrow(known, self.table, nodes), removed, None, is_change)

    def judged(self, now: int, is_kept: bool) -> tuple[Any, Any]:
        """Return who is silent and what falls, by nodes that came since, or by all."""
        keeping = Keeping(self.kept.folder, self.kept.read(), {}) if is_kept else None
        since = (now - OVER) // PER * PER - PER
        nodes, table = Nodes(1, 0, ("meter", "site"), since, False), TableRows.of(self.table)
        meeting = Meeting(nodes, table, PER, LocalEngine(), "step", "falls", keeping)
        falls = meeting.falling("energy", PER, 1)
        silent = replace(
            meeting, nodes=Nodes(2, 0, ("meter",), now - OVER, False), width_us=PER * 10, rule="silent"
        )
        found = silent.silent(now - PER), falls
        if keeping:
            self.kept.write({**keeping.before, **keeping.now})
        return found


def batches_of(dice: np.random.Generator, width: int) -> Iterator[list[Reading]]:
    """Yield readings in order but for some that are late, by a little or by much."""
    times = dice.permutation(1500)[: int(dice.integers(20, 400))]
    rows = []
    for time in np.sort(times).tolist():
        meter = [None, "a", "b", "c"][int(dice.integers(0, 4))]
        late = dice.choice([0, 0, 0, 0, width * 2, 150, 600]) * dice.random()
        rows.append((time + late, (meter, int(dice.integers(0, 2)), time, int(dice.integers(0, 12)))))
    ordered = [row for _, row in sorted(rows, key=lambda each: each[0])]
    cuts = np.sort(dice.integers(0, len(ordered) + 1, int(dice.integers(1, 12))))
    for part in np.split(np.arange(len(ordered)), cuts):
        yield [ordered[at] for at in part]


def by_hand(readings: list[Reading], now: int) -> tuple[Any, Any]:
    """Return the same of readings in nodes of their own."""
    since = (now - OVER) // PER * PER - PER
    series = defaultdict[Any, list[tuple[int, int]]](list)
    last: dict[str, int] = {}
    for meter, site, time, value in readings:
        if time >= since:
            series[meter, site].append((time, value))
        if meter is not None and time >= now - OVER:
            last[meter] = max(last.get(meter, 0), time)
    falls: dict[Any, int] = {}
    for key, values in series.items():
        values.sort()
        for before, after in zip([(0, -1), *values[:-1]], values, strict=True):
            if after[0] >= since + PER:
                period = (*key, after[0] // PER)
                falls[period] = falls.get(period, 0) + (after[1] < before[1])
    silent = [time for time in last.values() if time < now - PER]
    return (len(last), len(silent)), (len(falls), sum(count > 1 for count in falls.values()))


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), width=st.sampled_from([1, 10, 50]))
def test_what_is_kept_and_what_came_since_say_what_all_nodes_say(
    seed: int, width: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    dice = np.random.default_rng(seed)
    rollup, taken, now = Rollup(tmp_path_factory.mktemp("any")), list[Reading](), 0
    for batch in batches_of(dice, width):
        if batch:
            rollup.append(nodes_of(batch, width))
            taken += batch
        now = max([now, *(time for _, _, time, _ in taken)]) + int(dice.integers(0, 30))
        step = dice.random()
        if step < 0.1:
            rollup.rewrite(read_between(rollup.table), is_change=False)
        elif step < 0.2 and taken:
            # Rows of a key are retracted, and its nodes are built again.
            gone = taken[int(dice.integers(0, len(taken)))][0]
            taken = [reading for reading in taken if reading[0] != gone]
            rollup.rewrite(nodes_of(taken, width), is_change=True)
        if step < 0.8:
            kept, full = rollup.judged(now, is_kept=True), rollup.judged(now, is_kept=False)
            assert kept == full
            if width == 1:
                silent, falls = by_hand(taken, now)
                assert (kept[0][:2], kept[1][:2]) == (silent, falls)


def test_only_what_came_since_is_read(tmp_path: Path) -> None:
    rollup = Rollup(tmp_path)
    rollup.append(nodes_of([("a", 0, time, 5) for time in range(0, 500, 10)], 10))
    first = rollup.judged(500, is_kept=True)
    for path in rollup.table.glob("*/*.parquet"):
        path.write_bytes(b"no file of nodes")
    rollup.append(nodes_of([("a", 0, 500, 3), ("a", 0, 510, 2), ("b", 0, 509, 1)], 10))

    assert first == ((1, 0, []), (3, 0, []))
    assert rollup.judged(515, is_kept=True) == ((2, 0, []), (5, 1, [("meter a, site 0", 500, 2)]))
    assert {path.name for path in rollup.kept.folder.iterdir()} == parts(rollup)


def test_all_nodes_are_read_where_a_part_is_gone_the_index_is_damaged_or_time_goes_back(
    tmp_path: Path,
) -> None:
    rollup = Rollup(tmp_path)
    rollup.append(nodes_of([("a", 0, time, -time) for time in range(0, 900, 10)], 10))
    full = rollup.judged(900, is_kept=False)
    assert rollup.judged(900, is_kept=True) == full
    (tmp_path / "kept" / next(iter(parts(rollup)))).unlink()
    assert rollup.judged(900, is_kept=True) == full
    rollup.index.write_text('{"silent": {"version": 1}}')
    assert rollup.judged(900, is_kept=True) == full
    assert rollup.judged(500, is_kept=True) == rollup.judged(500, is_kept=False) != full


def parts(rollup: Rollup) -> set[str]:
    kept: Mapping[str, Any] = rollup.kept.read()
    return {part for of in kept.values() for part in of.parts}
