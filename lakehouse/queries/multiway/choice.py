"""Choice of the way that a batch is joined, by what is known of its rows without reading them.

The ledger tells how many rows ingest accepted and how old the oldest is; the metrics of the batch before tell which
share of them WHERE let through, how many rows the windows have, which share could match, and what was lost by joining
plainly; sites tell what moving a row costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.algorithms.multiway_join.pruning import Choice, Load, choose
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.runtime.batch_manifest import BatchManifest, read_manifest
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_ledger
from lakehouse.storage.tables.table_log import read_columns

PLAIN, PRUNED = "plain", "pruned"
_COLUMNS = ("side", "joined", "lost_s", "rows", "refused", "unusable", "held", "matching")
_NOTHING: Mapping[str, Any] = dict.fromkeys(_COLUMNS)


@dataclass(frozen=True)
class Before:
    """Figures that the batch before left: of the batch as a whole, and of each side."""

    whole: Mapping[str, Any]
    sides: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, layout: Home, query: MultiwayQuery, batch: int) -> Before:
        """Return what the batch before one left; nothing before the first."""
        rows = read_columns(layout.queries(query.name), _COLUMNS, ("batch", batch - 1, batch - 1))
        known = {row[0]: dict(zip(_COLUMNS, row, strict=True)) for row in rows}
        return cls(known.get(-1, _NOTHING), [known.get(side, _NOTHING) for side in range(len(query.sides))])


def choice_of(
    layout: Home,
    query: MultiwayQuery,
    manifest: BatchManifest,
    transfer: Sequence[Sequence[float]],
    is_kept: bool,
) -> Choice:
    """Return which way a batch is joined; ``is_kept``: rows are kept in windows whichever it is."""
    before = Before.of(layout, query, manifest.number)
    others = len(query.sides) - 1
    load = Load(
        new=[new_rows(layout, query, manifest, side, before) for side in range(len(query.sides))],
        held=[side["held"] or 0 for side in before.sides],
        matching=[side["matching"] for side in before.sides],
        way=[sum(costs) / others for costs in transfer],
        is_filled=before.whole["joined"] == PRUNED or manifest.number == 1,
        is_kept=is_kept,
        lost=before.whole["lost_s"] or 0.0,
    )
    return choose(load)


def new_rows(layout: Home, query: MultiwayQuery, manifest: BatchManifest, side: int, before: Before) -> float:
    """Return how many rows of a side WHERE lets through, if it lets through the share of the batch before."""
    accepted, known = _accepted(layout, query, manifest, side), before.sides[side]
    folder = layout.batch_manifests(query.name)
    last = read_manifest(folder, "batch", manifest.number - 1) if manifest.number > 1 else None
    were = _accepted(layout, query, last, side) if last else 0
    if known["rows"] is None or not were:
        return accepted
    used = known["rows"] - (known["refused"] or 0) - (known["unusable"] or 0)
    return float(accepted * used / were)


def oldest_us(layout: Home, query: MultiwayQuery, manifest: BatchManifest) -> int | None:
    """Return the oldest event time of a batch's rows, whether or not WHERE lets them through; None for no row."""
    times = [
        entry.min_event_us
        for stream, span in zip(query.streams, manifest.spans, strict=True)
        for entry in read_ledger(layout, stream, *span)
    ]
    return min((time for time in times if time is not None), default=None)


def _accepted(layout: Home, query: MultiwayQuery, manifest: BatchManifest, side: int) -> int:
    span = manifest.spans[side]
    return sum(entry.accepted for entry in read_ledger(layout, query.streams[side], *span))
