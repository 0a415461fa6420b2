"""A query of each kind but selections that calls a predicate, with tables made by hand; no JVM.

Each has a join's, a multiway join's or an aggregate's tables of two batches, and the operators that these measured.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.runtime.batch_manifest import BatchManifest, write_manifest
from lakehouse.queries.runtime.failure import Failure, write_failure
from lakehouse.settings import Settings
from tests.queries import answered, chosen, joined, moved
from tests.queries.chosen import AT
from tests.serving.streams import write_delta

_INSIDE = "def {name}({column}) -> bool:\n    return {column} == 'hall'\n"
FIGURES = pa.schema([("side", pa.int32()), *chosen.FIGURES])
# By kind: query, what it calls on its first side, and how its text is changed to do so; then what its kernel is called.
KINDS = {
    "pairs": ("replies", "inside(location)", ("WHERE ", "WHERE inside(r.location) AND "), "its join"),
    "multiway": ("passing", "within(place)", ("WHERE ", "WHERE within(d.place) AND "), "its join"),
    "aggregate": (
        "busy",
        "within(place)",
        ("AND a.temp", "AND within(a.place) AND a.temp"),
        "its aggregates",
    ),
}
# Per batch, of the first side's two conditions: position, taken, passed, busy us, n, S, priority, slice, most waited.
CONDITIONS: dict[int, tuple[Any, ...]] = {
    1: (
        (0, 1000, 100, 20_000, 50_000.0, 0.1, 45_000.0, 9_000, 1000),
        (1, 100, 50, 1_000, 100_000.0, 0.5, 40_000.0, 500, 100),
    ),
    2: (
        (1, 500, 50, 50_000, 10_000.0, 0.5, 4_000.0, 30_000, 1000),
        (0, 1000, 500, 500, 1_000_000.0, 0.1, 900_000.0, 700, 500),
    ),
}
# Per batch, of the kernel: taken, passed, busy us, n, S, priority of the next batch.
KERNELS: dict[int, tuple[Any, ...]] = {
    1: (150, 2600, 50_000, 3000.0, 17.5, 2000.0),
    2: (60, 30, 12_000, 7000.0, 0.5, 2000.0),
}


def declare(folder: Path, kind: str) -> Settings:
    """Write a configuration with the query of a kind below ``folder``; return it as read."""
    (folder / "predicates").mkdir(parents=True, exist_ok=True)
    for name, column in (("inside", "location"), ("within", "place")):
        (folder / "predicates" / f"{name}.py").write_text(_INSIDE.format(name=name, column=column))
    query, _, change, _ = KINDS[kind]
    if kind == "pairs":
        return joined.declare(folder, **{query: joined.TEXT.replace(*change)})
    if kind == "multiway":
        return moved.declare(folder, moved.TEXT.replace(*change))
    return answered.declare(folder, **{query: answered.TEXT.replace(*change)})


def run_by_hand(settings: Settings, kind: str) -> None:
    """Write what two batches leave; of a third one, which goes on, there are only operators."""
    if kind == "pairs":
        joined.run_by_hand(settings)
    elif kind == "multiway":
        moved.run_by_hand(settings)
    else:
        found = [answered.Answer(5), answered.Answer(10, batch=2)]
        query = settings.of_kind(AggregateQuery)["busy"]
        answered.Aggregated(query, settings.streams, found, batches=2).write(settings.layout)
    rows = [row for batch in (1, 2, 3) for row in _measured(settings, kind, batch)]
    write_delta(pa.Table.from_pylist(rows, FIGURES), settings.layout.operators(KINDS[kind][0]))


def stop(settings: Settings, kind: str) -> None:
    """Let a third batch raise."""
    query, operator, _, _ = KINDS[kind]
    sides = settings.query(query).sides
    write_manifest(settings.layout.batch_manifests(query), "batch", BatchManifest(3, ((2, 3),) * len(sides)))
    for stream in {side.stream for side in sides}:
        joined.write_ledger(settings.layout, stream, 3)
    stopped = Failure(3, operator, "TypeError: no place", "within.py:2", "2026-01-02T00:03:00+00:00")
    write_failure(settings.layout, query, stopped)


def _measured(settings: Settings, kind: str, batch: int) -> list[dict[str, Any]]:
    """Return the rows of a batch; those of the third are like those of the first."""
    query, _, _, kernel = KINDS[kind]
    like = batch if batch in KERNELS else 1
    names = [each.text for each in settings.query(query).sides[0].conjuncts]
    measured, whole = chosen.FIGURES.names[3:12], chosen.FIGURES.names[12:25]
    told = zip(names, CONDITIONS[like], strict=True)
    rows: list[dict[str, Any]] = [
        {"side": 0, "operator": n, "name": name, **dict(zip(measured, values, strict=True))}
        for n, (name, values) in enumerate(told)
    ]
    wholes = dict(chosen.WHOLE)
    rows.append({"side": 0, "operator": -1, **dict(zip(whole, wholes[like], strict=True))})
    of_kernel = (*measured[1:7],)
    rows.append({"operator": 0, "name": kernel, **dict(zip(of_kernel, KERNELS[like], strict=True))})
    stamp = {"batch": batch, "committed_at": AT + timedelta(minutes=batch)}
    return [{**row, **stamp} for row in rows]
