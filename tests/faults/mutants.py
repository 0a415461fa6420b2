"""The guards against doing a thing twice, each switched off: kills must then tell, or the harness is worth nothing.

A guard is switched off in the forked process of an attempt alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from tests.faults import subject
from tests.faults.forked import attempt, kill_at
from tests.faults.lab import Lab, Labs, Verdict, differences, gone_on
from tests.faults.report import Progress

AT_ONCE = 4
# Tables of which a writer asks which batch it has appended last.
TABLES = (
    *("raw", "quarantine", "ledger", "rollup", "pairs", "multiway", "windows", "missed_rows", "selection"),
    *("answers", "alarms", "states", "operators", "queries", "repairs", "needed_slack"),
)
# A mutant by its name, and before which step the jobs die.
Case = tuple[str, int]


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Try each mutant with kills around the commits that its guard is for, until one tells."""
    names, kills = list(QUICK if quick else MUTANTS), 0
    caught: set[str] = set()
    with Labs() as labs:
        for name in progress(iter(names), len(names)):
            cases = [(name, step) for step in _steps_of(name, labs.steps())]
            for start in range(0, len(cases), AT_ONCE):
                some = cases[start : start + AT_ONCE]
                kills += len(some)
                if any(verdict for _, verdict in labs.tried(judged, some)):
                    caught.add(name)
                    break
    missed = [f"{name}: no kill showed it" for name in names if name not in caught]
    return {"mutants": len(names), "caught": len(caught), "kills": kills, "broken": missed}


def _steps_of(name: str, steps: Sequence[str]) -> list[int]:
    """Return the steps after which a mutant may do a thing again: a commit to its table, or a file being written."""
    if name in COMMITS:
        # What follows a commit lies two steps after the folder of its files: the crash point, and what comes next.
        made = f"mkdir var/{COMMITS[name]}/"
        return [number + 3 for number, what in enumerate(steps) if what.startswith(made)]
    return [number for number, what in enumerate(steps) if what.startswith("write")]


def judged(lab: Lab, case: Case) -> Verdict:
    """Kill the jobs and let them recover with a guard switched off; the harness should say that it is wrong."""
    name, step = case
    lab.run(kill_at(step))
    again = attempt(partial(_without_guard, name, lambda: subject.run_jobs(lab.config)))
    if again.error:
        return again.error
    found = attempt(partial(_without_guard, name, partial(gone_on, lab.config)))
    return found.error or differences(lab.expected, found.result)


def _without_guard(name: str, work: Callable[[], Any]) -> Any:
    with MUTANTS[name]():
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
            yield file

    with patch.object(atomic_files, "replacing", replacing):
        yield


COMMITS = {f"appends again to {table}": table for table in TABLES}
MUTANTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    **{name: partial(_appended_again, table) for name, table in COMMITS.items()},
    "writes in place": _in_place,
}
QUICK = ("appends again to raw", "appends again to states")
