"""Corrections of a stream's history after its ingest: rows that left raw, nodes built again.

A correction is begun (its row says what is to be done, whatever happens next), carried out, and done (a second row
of the same number). Killed between, it is carried out again. So raw rows = accepted rows - rows of what is done.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from lakehouse.storage.atomic_files import read_once
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_extent
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import bounds, commit_at, newest_version, read_rows

RETENTION, RETRACT, REVISE, REBUILD = "retention", "retract", "revise", "rebuild"
# Ranges of time of one correction, and of all since a version; the nearest are joined.
MOST_RANGES = 64
# Those whose rows no result may rest on.
TAKEN_OUT = (RETRACT, REVISE)


@dataclass(frozen=True)
class Correction:
    """One correction; ``from_us`` and ``to_us`` bound the times it is about, None where nothing does.

    ``condition`` names the raw rows that go among those of batches up to ``through``, as ``wrong_rows.py`` records
    them, and of revisions the batches that have them and the times of their rows; ``batches`` says how many of each
    batch. Where raw rows are dropped, identities of the definition ``identity`` are remembered from ``known_from_us``
    on, None for all of them. ``nodes`` are the ranges of time whose nodes are built again, None where others may
    change, too.
    """

    number: int
    kind: str
    done: bool
    by: str
    why: str
    what: str
    condition: str
    from_us: int | None
    to_us: int | None
    through: int
    rows: int
    batches: Mapping[int, int]
    at: datetime
    known_from_us: int | None = None
    identity: str | None = None
    nodes: Sequence[tuple[int, int]] | None = None


def read_corrections(layout: Home, stream: str) -> list[Correction]:
    """Return a stream's corrections in order, each once. They are read where the table has a new version, and kept."""
    table = layout.corrections(stream)
    version = newest_version(table)
    if version is None:
        return []
    try:
        return list(_at_commit(commit_at(table, version)))
    except FileNotFoundError:
        return list(_read(table))


@read_once(256)
def _at_commit(commit: Location) -> tuple[Correction, ...]:
    return _read(commit.parent.parent)


def _read(table: Location) -> tuple[Correction, ...]:
    latest: dict[int, Correction] = {}
    for row in sorted(read_rows(table), key=lambda row: (row["number"], row["done"])):
        known: dict[str, Any] = {each.name: row.get(each.name) for each in fields(Correction)}
        nodes = None if known["nodes"] is None else tuple(map(tuple, json.loads(known["nodes"])))
        latest[row["number"]] = Correction(**(known | {"batches": dict(row["batches"]), "nodes": nodes}))
    return tuple(latest.values())


def unfinished(corrections: Iterable[Correction]) -> Correction | None:
    """Return the correction that was begun and is not done; there is at most one."""
    return next((found for found in corrections if not found.done), None)


def raw_from(corrections: Iterable[Correction]) -> int | None:
    """Return since when all raw rows are there, None when none was ever dropped for its age.

    Counts what is only begun: rows may be gone as soon as that is written.
    """
    return max((found.to_us or 0 for found in corrections if found.kind == RETENTION), default=None)


def known_from(corrections: Iterable[Correction], identity: str) -> int | None:
    """Return since when the identities of all accepted rows are known, by their definition; None if none is forgotten.

    What was remembered of another definition says nothing: then only raw rows are left. As ``raw_from``, it counts what
    is only begun.
    """
    starts = (
        found.to_us if found.identity != identity else found.known_from_us
        for found in corrections
        if found.kind == RETENTION
    )
    return max((start for start in starts if start is not None), default=None)


def published_facts(corrections: Sequence[Correction]) -> dict[str, Any]:
    """Return what a published version holds of a stream's corrections."""
    # Two numbers for each, as nodes change while it is carried out. Dropping raw rows changes no node.
    rebuilds = tuple(
        (2 * found.number + found.done, found.nodes if found.done else None)
        for found in corrections
        if found.kind != RETENTION
    )
    return {
        "correction": max((found.number for found in corrections), default=0),
        "rebuilt": rebuilds[-1][0] if rebuilds else 0,
        "rebuilds": rebuilds,
        "raw_from_us": raw_from(corrections),
        "retracted": removed(corrections, TAKEN_OUT),
    }


def waiting_revisions(layout: Home, stream: str, is_done: bool = False) -> tuple[int, int] | None:
    """Return the first and the last finished batch with revisions that no correction has begun to carry out.

    None where there are none. ``is_done``: that none has carried out. Cost: a look for the table of revised rows.
    """
    table = layout.revised(stream)
    if newest_version(table) is None:
        return None
    own = (each for each in read_corrections(layout, stream) if each.kind == REVISE and each.done >= is_done)
    after = max((each.through for each in own), default=0)
    between = ("revised_in", after + 1, read_extent(layout, stream).batch)
    [(first, last)] = bounds(table, ("revised_in",), between)
    return None if first is None or last is None else (first, last)


def removed(corrections: Iterable[Correction], kinds: Iterable[str], through: int | None = None) -> int:
    """Return how many rows corrections of these kinds took out of raw, of batches up to ``through``."""
    return sum(
        rows
        for found in corrections
        if found.done and found.kind in kinds
        for batch, rows in found.batches.items()
        if through is None or batch <= through
    )
