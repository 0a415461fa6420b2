"""What was tried and what broke: docs/reliability/report.json, and the page that is made of it."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

Item = TypeVar("Item")
Results = dict[str, dict[str, Any]]
FOLDER = Path(__file__).parents[2] / "docs" / "reliability"
HEAD = """\
# What breaks when the machine does

Faults are put into the real jobs over real tables, the jobs are run again, and every table, query and
answer is compared with that of a run without faults, by a hash that knows no order, and no table of a query may hold a
row twice. `make faults` writes this page, `python -m tests.faults PART` one part of it, hence the dates
([tests/faults](../../tests/faults/__init__.py)); a few of kills, damages, changed files, interleavings
and mutants run with every build.

| fault | tried | broke | on |
|---|---|---|---|
"""
SECOND_GUARD = """
One guard protects nothing by itself: that which keeps a batch or a repair from appending to `alarms` twice. Changes of
alarms are told against the alarms that stand, so work that is done again finds nothing changed. Its mutant therefore
also hides from the work what it has appended itself.
"""
# Of each part: what was tried, in words with its figures, and how often; in the order of the page.
ROWS: Mapping[str, tuple[str, str]] = {
    "kills": (
        "the process dies before each of the {steps} changes of files that all jobs make; "
        "{twice} times the run that follows dies too",
        "{killed}",
    ),
    "engine": (
        "Spark's JVM dies alone at each of the moments that an ingest, rollups, a query with a predicate, a rebuild "
        "and a publish pass whose work is Spark's",
        "{killed}",
    ),
    "errors": ("from a step on every change of a file fails, with {codes}", "{tried}"),
    "disk": ("a real file system that is full, or read-only, at first or halfway", "{tried}"),
    "damage": (
        "the newest file of each of {shapes} kinds is deleted, emptied or halved: "
        "{same} came to the same, {refused} were refused with an error, {told} were told by the checks",
        "{tried}",
    ),
    "writers": (
        "two to eight processes run jobs on one home at once, in any order; one of them dies",
        "{tried}",
    ),
    "interleavings": (
        "up to eight processes stop before every change of a file and are moved on as Hypothesis draws it from the "
        "seeds {seeds}, while they append, build, fold, merge, vacuum, publish, retract, rebuild and requeue: "
        "{operations} operations, of which {turned_away} were turned away, in {steps} steps; with leases switched off "
        "a history breaks",
        "{tried}",
    ),
    "clocks": ("the clock jumps by a day, forwards or back, between runs or in the midst of one", "{tried}"),
    "sources": (
        "a landed file is cut, emptied, replaced, removed or unreadable, or its folder goes, at each of the {moments} "
        "moments of an ingest, whose process goes on or dies there",
        "{tried}",
    ),
    "topics": (
        "a topic of Kafka whose broker dies, that loses messages, aborts transactions, widens and is made anew, read "
        "in between as a seed draws it: {told}",
        "{tried}",
    ),
    "sessions": (
        "an MQTT broker that restarts or loses its session with a bridge that is killed, as a seed draws it: {told}",
        "{tried}",
    ),
    "heap": (
        "rows in large batches through ingest, rollup, join and publish in a JVM of 512 MB, against one of 3 GB; "
        "run {runs} of all jobs ended well",
        "{tried} rows",
    ),
    "upgrade": ("homes that earlier versions wrote, taken on by this one: content differs", "{tried}"),
    "bounds": ("ranges over a published version against all rows: truths outside their interval", "{tried}"),
    "readers": (
        "answers asked beside {publishes} publishes and the removal of old versions: torn",
        "{reads}",
    ),
    "inputs": ("hostile files through the real ingest: streams stopped", "{tried}"),
    "sandbox": (
        "statements that try to leave the sandbox or to eat memory or time: not refused or stopped",
        "{tried}",
    ),
    "soak": (
        "{minutes} minutes of a service that is killed {kills} times: rows lost or twice, and bounds of size passed; "
        "{flat}",
        "{rows} rows",
    ),
    "mutants": (
        "guards against doing a thing twice are switched off, that of alarms with a second one: not noticed",
        "{mutants}",
    ),
}

README = Path(__file__).parents[2] / "README.md"
_BEGIN, _END = "<!-- make faults writes these lines -->", "<!-- to here -->"
# The ten lines of the card in the README: the parts of each, whose numbers are added up; what was tried, and what came
# of it, with the number that broke.
CARD: Mapping[tuple[str, ...], tuple[str, str]] = {
    ("kills",): (
        "dies before each change of a file that a job makes",
        "{killed} of {steps}, {broke} differ after",
    ),
    ("errors", "disk", "clocks"): (
        "disk full, read-only, failing; too many open files; clock a day off",
        "{tried} times, {broke} differ after",
    ),
    ("damage",): ("state deleted, emptied, halved", "{tried} files, {broke} went unnoticed"),
    ("writers", "interleavings"): (
        "two to eight writers at once, by chance or moved on step by step",
        "{tried} times, {broke} differ after",
    ),
    ("readers",): ("reads beside {publishes} publishes", "{reads}, {broke} torn"),
    ("bounds",): ("random ranges", "{tried}, {broke} outside their interval"),
    ("inputs",): ("hostile files", "{tried}, {broke} stopped a stream"),
    ("sandbox",): ("statements against the sandbox", "{tried}, {broke} got out"),
    ("soak",): (
        "service killed {kills} times in {minutes:.0f} minutes",
        "{rows} rows; counts of rows, or bounds of size, that did not hold: {broke}",
    ),
    ("mutants",): ("guards against doing twice, switched off", "{mutants}, {broke} not noticed"),
}


class Progress(Protocol):
    """Tells how far a part is with what it tries."""

    def __call__(self, items: Iterator[Item], total: int) -> Iterator[Item]:
        """Yield the items, of which there are so many."""


def page(results: Results) -> str:
    """Return the page of some results; parts that were not run say so."""
    lines = []
    for part in (name for name in ROWS if name in results):
        found = results[part]
        cells = [cell.format(**found) for cell in ROWS[part]]
        lines.append(f"| {' | '.join(cells)} | {len(found['broken'])} | {found['on']} |")
    broken = [f"- {part}: {each}" for part, found in results.items() for each in found["broken"]]
    took = sum(found.get("seconds", 0) for found in results.values())
    end = (
        f"\nAll of it took {took / 60:.0f} minutes on a machine with two cores that had other work at times.\n"
        f"{SECOND_GUARD}"
    )
    return (
        HEAD + "\n".join(lines) + "\n" + end + ("\nBroken:\n\n" + "\n".join(broken) + "\n" if broken else "")
    )


def card(results: Results) -> str:
    """Return the lines of the README: what was tried, and what came of it."""
    lines = ["| what was done to it | how often, and what came of it |", "|---|---|"]
    for parts, cells in CARD.items():
        if found := [results[part] for part in parts if part in results]:
            figures = found[0] | {"broke": sum(len(each["broken"]) for each in found)}
            if len(found) > 1:
                figures["tried"] = sum(each["tried"] for each in found)
            lines.append("| " + " | ".join(cell.format(**figures) for cell in cells) + " |")
    return "\n".join(lines)


def write(results: Results) -> None:
    """Put results beside those of other parts, and write the page and the card in the README.

    Processes that try other parts at the time write theirs before or after.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    with _alone():
        _write(results)


@contextmanager
def _alone() -> Iterator[None]:
    folder = os.open(FOLDER, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _write(results: Results) -> None:
    path = FOLDER / "report.json"
    kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
    kept |= results
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (FOLDER / "report.md").write_text(page(kept), encoding="utf-8")
    before, _, rest = README.read_text("utf-8").partition(_BEGIN)
    README.write_text(f"{before}{_BEGIN}\n{card(kept)}\n{_END}{rest.partition(_END)[2]}", encoding="utf-8")


def silent(items: Iterator[Item], total: int) -> Iterator[Item]:
    """Tell nothing."""
    return items


def told(items: Iterator[Item], total: int) -> Iterator[Item]:
    """Tell on the error stream how far it is, every ten seconds."""
    last = time.monotonic()
    for number, item in enumerate(items, start=1):
        yield item
        if time.monotonic() - last > 10:
            last = time.monotonic()
            print(f"  {number} of {total}", file=sys.stderr)
