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
from typing import Any
from unittest.mock import patch

from tests.faults import subject
from tests.faults.forked import AtStep, attempt
from tests.faults.lab import Lab, Labs, Verdict, differences, gone_on, labs_for
from tests.faults.report import Progress

AT_ONCE = 2
# What is passed last first: whoever dies there makes everything before it again.
_OF_INGEST = ("ingest.quarantine-appended", "ingest.raw-appended")
_OF_QUERIES = ("queries.outputs-appended", "queries.windows-appended", "queries.state-appended")
# Tables whose writer asks which batch it has appended last, and where a kill lets it ask. What ends a batch or a repair
# by being appended (ledger, rollup, queries, repairs) is asked for before the work begins: it has no guard to lose.
TABLES = {
    **dict.fromkeys(("raw", "quarantine"), _OF_INGEST),
    **dict.fromkeys(
        ("pairs", "multiway", "selection", "answers", "missed_rows", "states", "windows"), _OF_QUERIES
    ),
    "alarms": ("queries.alarmed",),
    "needed_slack": ("repair.pairs-appended", "repair.finished"),
}
# Files that are replaced: of the kills in the midst of one, some are tried.
HALF, TRIED = "half-written", range(0, 36, 3)
# A mutant by its name, none for no mutant; a crash point, and at which of its passages the jobs die; and whether the
# checks are asked too, for which Spark starts, where the tables do not differ.
Case = tuple[str, str, int, bool]


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
            told[name] = f"{case[1]}, passage {case[2] + 1}: {verdict}"
            # The same kill with every guard on must show nothing.
            broken += [f"{case[1]}: {found}" for _, found in labs.tried(judged, [("", *case[1:])]) if found]
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
    """Return the kills that a mutant is tried with, those first that can be told by the tables alone."""
    points = TABLES[COMMITS[name]] if name in COMMITS else ()
    kills = [(point, number) for point in points for number in range(steps.count(f"at {point}"))]
    kills = kills or [(HALF, number) for number in TRIED]
    return [(name, *kill, is_checked) for is_checked in (False, True) for kill in kills]


def judged(lab: Lab, case: Case) -> Verdict:
    """Kill the jobs and let them recover with a guard switched off; the tables or the checks should tell."""
    name, point, number, is_checked = case
    attempt(_without(name, lambda: subject.run_jobs(lab.config)), lab.config.parent, _kill_in(point, number))
    again = attempt(_without(name, lambda: subject.run_jobs(lab.config)))
    if again.error:
        return again.error
    found = attempt(_without(name, partial(gone_on, lab.config)))
    wrong = found.error or differences(lab.expected, found.result)
    if wrong or not is_checked:
        return wrong
    return attempt(partial(subject.check, lab.config)).error or ""


def _kill_in(point: str, number: int) -> AtStep:
    """Return what kills the process when it passes a crash point for the so-manieth time."""
    passed = [0]

    def at_step(step: int, what: str) -> None:
        passed[0] += what == f"at {point}"
        if passed[0] > number:
            os.kill(os.getpid(), signal.SIGKILL)

    return at_step


def _without(name: str, work: Callable[[], Any]) -> Callable[[], Any]:
    return partial(_without_guard, name, work)


def _without_guard(name: str, work: Callable[[], Any]) -> Any:
    with MUTANTS[name]() if name else nullcontext():
        return work()


@contextmanager
def _appended_again(table: str) -> Iterator[None]:
    """Let no writer of a table know what it has appended."""
    from lakehouse.home import table_commits
    from lakehouse.spark import tables

    known = table_commits.committed

    def committed(found: Any, writer: str) -> int:
        return -1 if f"/{table}/" in found.table_uri else known(found, writer)

    with patch.object(table_commits, "committed", committed), patch.object(tables, "committed", committed):
        yield


@contextmanager
def _in_place() -> Iterator[None]:
    """Let files that are replaced be written in their place."""
    from lakehouse.home import atomic_files

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
    "writes in place": _in_place,
}
QUICK = ("appends again to raw",)
