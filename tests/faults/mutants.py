"""The guards against doing a thing twice, or by halves, switched off: kills must then tell, or the harness is idle.

A guard is switched off in the forked process of an attempt alone.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import pyarrow.compute as pc

from tests.faults import subject
from tests.faults.forked import AtStep, attempt
from tests.faults.lab import Lab, Labs, Verdict, differences, gone_on, labs_for, rows_twice
from tests.faults.report import Progress

AT_ONCE = 2
# What is passed last first: whoever dies there makes everything before it again.
_OF_INGEST = ("ingest.quarantine-appended", "ingest.raw-appended")
_OF_QUERIES = ("queries.outputs-appended", "queries.state-appended")
# Tables whose writer asks which batch it has appended last, and where a kill lets it ask. What ends a batch or a repair
# by being appended (ledger, rollup, queries, repairs) is asked for before the work begins: it has no guard to lose.
TABLES = {
    **dict.fromkeys(("raw", "quarantine"), _OF_INGEST),
    **dict.fromkeys(("pairs", "multiway", "selection", "missed_rows", "states"), _OF_QUERIES),
    "answers": ("repair.answers-appended", *_OF_QUERIES),
    "windows": ("queries.windows-appended",),
    # Alarms have a second guard, which is switched off along with the first: see _alarms_again.
    "alarms": ("queries.alarmed",),
    "needed_slack": ("repair.pairs-appended",),
}
# Files that are replaced: of the kills in the midst of one, some are tried.
HALF, TRIED = "half-written", range(0, 36, 3)


class Case(NamedTuple):
    """A mutant and whether it is in force; a crash point, and at which of its passages the jobs die."""

    name: str
    is_off: bool
    point: str
    number: int


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Try each mutant with kills around the commits that its guard is for, until one tells."""
    names = list(QUICK if quick else MUTANTS)
    told, broken = dict[str, str](), list[str]()
    with labs_for(quick) as labs:
        for name in progress(iter(names), len(names)):
            case, verdict = _shown_by(labs, _cases(name, labs.steps()), 1 if quick else AT_ONCE)
            if case is None:
                broken.append(f"{name}: no kill showed it")
                continue
            # Of a traceback the error alone: the lines before it name files of this machine.
            told[name] = f"{case.point}, passage {case.number + 1}: {verdict.strip().splitlines()[-1]}"
            # The same kill with every guard on must show nothing.
            kept = [case._replace(is_off=False)]
            broken += [f"{case.point}: {found}" for _, found in labs.tried(judged, kept) if found]
    said = [f"{name}: {verdict[:300]}" for name, verdict in told.items()]
    return {"mutants": len(names), "caught": len(told), "broken": broken, "said": said}


def _shown_by(labs: Labs, cases: Sequence[Case], at_once: int) -> tuple[Case | None, Verdict]:
    """Return the first case that shows a mutant, and what it shows; none where no case does."""
    for start in range(0, len(cases), at_once):
        for case, verdict in labs.tried(judged, cases[start : start + at_once]):
            if verdict:
                return case, verdict
    return None, ""


def _cases(name: str, steps: Sequence[str]) -> list[Case]:
    """Return the kills that a mutant is tried with."""
    points = TABLES[COMMITS[name]] if name in COMMITS else ()
    # What only the mutant's own way of working passes, it passes once or more.
    kills = [(point, number) for point in points for number in range(max(1, steps.count(f"at {point}")))]
    kills = kills or [(HALF, number) for number in TRIED]
    return [Case(name, True, *kill) for kill in kills]


def judged(lab: Lab, case: Case) -> Verdict:
    """Kill the jobs and let them recover with a guard switched off; the tables should tell."""
    attempt(_with(case, partial(subject.run_jobs, lab.config)), lab.config.parent, _kill_in(case))
    again = attempt(_with(case, partial(subject.run_jobs, lab.config)))
    if again.error:
        return again.error
    found = attempt(_with(case, partial(gone_on, lab.config)))
    return found.error or differences(lab.expected, found.result) or rows_twice(lab.config)


def _kill_in(case: Case) -> AtStep:
    """Return what kills the process when it passes a crash point for the so-manieth time."""
    passed = [0]

    def at_step(step: int, what: str) -> None:
        passed[0] += what == f"at {case.point}"
        if passed[0] > case.number:
            os.kill(os.getpid(), signal.SIGKILL)

    return at_step


def _with(case: Case, work: Callable[[], Any]) -> Callable[[], Any]:
    return partial(_with_guard_off, case, work)


def _with_guard_off(case: Case, work: Callable[[], Any]) -> Any:
    way = WAYS.get(case.name, nullcontext)
    with way(), MUTANTS[case.name]() if case.is_off else nullcontext():
        return work()


@contextmanager
def _appended_again(table: str) -> Iterator[None]:
    """Let no writer of a table know what it has appended."""
    from lakehouse.engine import parts
    from lakehouse.spark import tables
    from lakehouse.storage.tables import table_commits

    known = table_commits.committed

    def committed(found: Any, writer: str) -> int:
        return -1 if f"/{table}/" in found.table_uri else known(found, writer)

    with (
        patch.object(table_commits, "committed", committed),
        patch.object(tables, "committed", committed),
        patch.object(parts, "committed", committed),
    ):
        yield


@contextmanager
def _alarms_again() -> Iterator[None]:
    """Let alarms be appended again, and followed as if what was appended were not there.

    The first alone shows nothing: changes are told against the alarms that stand, so a batch that is made again finds
    that it has changed nothing and appends nothing.
    """
    from lakehouse.queries.aggregate import alarms, revise

    answered, standing = revise.Revision.answered, alarms.standing_alarms

    def followed(self: Any) -> Any:
        def others(*told: Any) -> Any:
            return standing(*told).filter(
                (pc.field("found") != self.how) | (pc.field("batch") != self.number)
            )

        with patch.object(revise, "standing_alarms", others):
            return answered(self)

    with _appended_again("alarms"), patch.object(revise.Revision, "answered", followed):
        yield


@contextmanager
def _in_windows() -> Iterator[None]:
    """Let a join of three streams keep its rows in windows, as one whose raw rows are forgotten does; in Spark."""
    from lakehouse.queries.multiway.run import MultiwayRun

    with patch.object(MultiwayRun, "keeps_windows", True):
        yield


@contextmanager
def _in_place() -> Iterator[None]:
    """Let files that are replaced be written in their place."""
    from lakehouse.storage import atomic_files

    @contextmanager
    def replacing(path: Any, **told: Any) -> Iterator[Any]:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            sys.audit("tidemark.crash_point", HALF)
            yield file

    with patch.object(atomic_files, "replacing", replacing):
        yield


COMMITS = {f"appends again to {table}": table for table in TABLES}
MUTANTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    **{name: partial(_appended_again, table) for name, table in COMMITS.items()},
    "appends again to alarms": _alarms_again,
    "writes in place": _in_place,
}
# What a mutant needs to come to its guard, with the guard on or off.
WAYS: dict[str, Callable[[], AbstractContextManager[None]]] = {"appends again to windows": _in_windows}
QUICK = ("appends again to raw",)
