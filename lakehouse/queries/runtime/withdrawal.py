"""Withdrawal of results that rest on retracted rows: a repair of its own for each retraction.

    manifest of repair K    the retraction, and how many results rest on its rows; written first
        results without those, or answers recomputed from raw; the state without the rows
            -> repairs K    who retracted the rows and why, and what was withdrawn; written last

It comes after all repairs of late rows, and between batches: none is planned while results rest on retracted rows, so
that neither they nor the state change meanwhile, and what it reads is the same when it is done again.
"""

from typing import Any

from lakehouse.queries.kind import kind_of
from lakehouse.queries.runtime.batch_manifest import (
    BatchManifest,
    finished,
    last_planned,
    last_repair,
    read_manifest,
    reflected,
    repaired,
    retractions,
    waiting_retractions,
    write_manifest,
)
from lakehouse.queries.runtime.repair import add_repair
from lakehouse.queries.runtime.retracted import Retracted
from lakehouse.queries.runtime.run import QueryRun
from lakehouse.spark import tables
from lakehouse.storage.crashpoint import crash_point


def drain_withdrawals(run: QueryRun[Any], totals: dict[str, int]) -> None:
    """Withdraw what rests on retracted rows, and add it to totals; whoever calls lets no batch run meanwhile.

    Nothing is done while a batch is begun, or not repaired.
    """
    while (manifest := _next(run)) is not None:
        add_repair(totals, _withdraw(run, manifest))


def _next(run: QueryRun[Any]) -> BatchManifest | None:
    """Return the withdrawal that was begun, or write the manifest of the next one; None if there is nothing to do."""
    layout, query = run.layout, run.query
    folder, number = layout.batch_manifests(query.name), last_repair(layout, query.name) + 1
    if begun := read_manifest(folder, "repair", number):
        return begun if begun.retraction else None
    through = finished(layout, query.name)
    is_repaired = not kind_of(query).has("repair") or repaired(layout, query.name) >= through
    waiting = waiting_retractions(layout, query.name, query.streams)
    if not waiting or not is_repaired or last_planned(folder) > through:
        return None
    stream, correction = waiting[0]
    known = zip(query.streams, reflected(layout, query.name) or (), strict=True)
    manifest = BatchManifest(
        number,
        ((through, through),),
        corrections=tuple(correction.number if name == stream else after for name, after in known),
        retraction=(stream, correction.number),
        withdrawn=run.resting(Retracted.of(layout, query, stream, correction)),
    )
    write_manifest(folder, "repair", manifest)
    crash_point("repair.planned")
    return manifest


def _withdraw(run: QueryRun[Any], manifest: BatchManifest) -> dict[str, int]:
    """Withdraw results, then append the row that says so; return its counts."""
    layout, name = run.layout, run.query.name
    assert manifest.retraction is not None
    stream, correction = manifest.retraction
    asked = retractions(layout, stream, correction - 1)[0]
    revised, gone = run.withdraw(Retracted.of(layout, run.query, stream, asked), manifest)
    withdrawn = sum(manifest.withdrawn.values()) + revised
    counted = {"looked_at": 0, "found": revised, "gone": gone, "withdrawn": withdrawn}
    about = {"stream": stream, "correction": correction, "by": asked.by, "why": asked.why}
    time_us = run.time_us(manifest.spans[0][1])
    tables.create(layout.repairs(name), "repairs")
    run.finish_repair(manifest, **counted, time_us=time_us, **about, withdrawn_from=manifest.withdrawn)
    return counted
