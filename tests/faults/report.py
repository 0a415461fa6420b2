"""The results of the fault tests: tests/faults/results/report.json, and the page and table that are made of it."""

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
FOLDER = Path(__file__).parent / "results"
HEAD = """\
# What breaks when the machine does

Each part below injects a fault into the real jobs over real tables and runs the jobs again. Then every table, query and
answer is compared with that of a run without faults, by a hash that does not depend on the order of rows. No table of a
query may hold a row twice. `make faults` writes this page. `python -m tests.faults PART` runs one part of it, so parts
may have different dates ([tests/faults](../__init__.py)). A few kills, damages, changed files,
interleavings and mutants are part of every build.

| fault | tried | broke | on |
|---|---|---|---|
"""
SECOND_GUARD = """
One guard protects nothing by itself: the one that keeps a batch or a repair from appending to `alarms` twice. Changes
of alarms are computed against the alarms in the table, so a batch that runs again finds nothing changed. The mutant of
this guard therefore also hides from the batch the rows that it has appended itself.
"""
# For each part, in the order of the page: what was tried, as a text with its figures, and how often.
ROWS: Mapping[str, tuple[str, str]] = {
    "kills": (
        "the process is killed before each of the {steps} file changes that all jobs make; "
        "the run after it is killed too, {twice} times",
        "{killed}",
    ),
    "engine": (
        "only Spark's JVM is killed, at each moment at which an ingest, rollups, a query with a predicate, a rebuild "
        "or a publish uses Spark",
        "{killed}",
    ),
    "errors": ("every file change fails from some step on, with {codes}", "{tried}"),
    "disk": ("a real file system is full or read-only, from the start or halfway through", "{tried}"),
    "damage": (
        "the newest file of each of {shapes} kinds is deleted, emptied or halved: "
        "{same} led to the same content, {refused} were refused with an error, {told} were reported by the checks",
        "{tried}",
    ),
    "writers": (
        "two to eight processes run jobs on one home at once, in any order; one of them is killed",
        "{tried}",
    ),
    "interleavings": (
        "up to eight processes stop before every file change and continue in an order that Hypothesis draws from the "
        "seeds {seeds}, while they append, build, fold, merge, vacuum, publish, retract, rebuild and requeue: "
        "{operations} operations in {steps} steps, of which {turned_away} were refused by a lease; with leases "
        "switched off a history breaks",
        "{tried}",
    ),
    "clocks": ("the clock jumps by a day, forwards or back, between runs or during one", "{tried}"),
    "sources": (
        "a landed file is cut, emptied, replaced, removed or made unreadable, or its folder is removed, at each of the "
        "{moments} moments of an ingest; the ingest continues or is killed there",
        "{tried}",
    ),
    "topics": (
        "a Kafka topic whose broker is killed, that loses messages, aborts transactions, gets partitions and is "
        "created again, with reads in between in an order drawn from a seed: {told}",
        "{tried}",
    ),
    "sessions": (
        "an MQTT broker that restarts or loses its session, and a bridge that is killed, in an order drawn from a "
        "seed: {told}",
        "{tried}",
    ),
    "heap": (
        "large batches of rows through ingest, rollup, join and publish in a JVM of 512 MB, compared with one of 3 GB; "
        "run {runs} of all jobs succeeded",
        "{tried:,} rows",
    ),
    "bounds": (
        "ranges over a published version, compared with all rows: truths outside their interval",
        "{tried}",
    ),
    "readers": (
        "answers while {publishes} versions are published and old ones removed: torn answers",
        "{reads:,}",
    ),
    "inputs": ("hostile files through the real ingest: streams stopped", "{tried}"),
    "sandbox": (
        "statements that try to leave the sandbox or to eat memory or time: not refused or stopped",
        "{tried}",
    ),
    "web": (
        "requests without a token, with a token of another stream and without sense to the web server, then {attempts} "
        "attempts of a thousand hostile clients beside ten honest ones, whose p95 is {p95_ms} ms, in quiet "
        "{quiet_p95_ms} ms: let in, told, failed or slow",
        "{tried:,}",
    ),
    "soak": (
        "{minutes} minutes of a service that is killed {kills} times: rows lost or counted twice, and size limits "
        "exceeded; {flat}",
        "{rows:,} rows",
    ),
    "mutants": (
        "guards against repeated work are switched off (the one of alarms together with a second one): not noticed",
        "{mutants}",
    ),
}

README = Path(__file__).parents[2] / "README.md"
_BEGIN, _END = "<!-- make faults writes these lines -->", "<!-- to here -->"
# The ten lines of the table in the README. Each has its parts, whose numbers are added up, what was tried, and the
# result with the number of failures.
CARD: Mapping[tuple[str, ...], tuple[str, str]] = {
    ("kills",): (
        "killed before each file change that a job makes",
        "{killed} of {steps} changes; {broke} results differ",
    ),
    ("errors", "disk", "clocks"): (
        "disk full, read-only or failing; too many open files; clock a day off",
        "{tried} runs; {broke} results differ",
    ),
    ("damage",): ("a state file deleted, emptied or halved", "{tried} files; {broke} unnoticed"),
    ("writers", "interleavings"): (
        "two to eight writers at once, at random or step by step",
        "{tried} runs; {broke} results differ",
    ),
    ("readers",): ("reads during {publishes} publishes", "{reads:,} reads; {broke} torn"),
    ("bounds",): (
        "random ranges compared with all rows",
        "{tried:,} ranges; {broke} truths outside the interval",
    ),
    ("inputs",): ("hostile files", "{tried:,} files; {broke} stopped a stream"),
    ("sandbox",): ("statements that try to leave the sandbox", "{tried} statements; {broke} escaped"),
    ("soak",): (
        "service killed {kills} times in {minutes:.0f} minutes",
        "{rows:,} rows; {broke} wrong counts or exceeded size limits",
    ),
    ("mutants",): (
        "guards against repeated work switched off",
        "{mutants} guards; {broke} unnoticed by the tests",
    ),
}


class Progress(Protocol):
    """Shows how far a part has got."""

    def __call__(self, items: Iterator[Item], total: int) -> Iterator[Item]:
        """Yield the items; ``total`` is their number."""


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
    """Return the table of the README: what was tried, and the result."""
    lines = ["| fault | tried; result |", "|---|---|"]
    for parts, cells in CARD.items():
        if found := [results[part] for part in parts if part in results]:
            figures = found[0] | {"broke": sum(len(each["broken"]) for each in found)}
            if len(found) > 1:
                figures["tried"] = sum(each["tried"] for each in found)
            lines.append("| " + " | ".join(cell.format(**figures) for cell in cells) + " |")
    return "\n".join(lines)


def write(results: Results) -> None:
    """Add results to those of other parts, and write the page and the table in the README.

    A lock keeps processes that run other parts at the same time apart.
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
    """Print nothing."""
    return items


def told(items: Iterator[Item], total: int) -> Iterator[Item]:
    """Print to standard error how far a part has got, every ten seconds."""
    last = time.monotonic()
    for number, item in enumerate(items, start=1):
        yield item
        if time.monotonic() - last > 10:
            last = time.monotonic()
            print(f"  {number} of {total}", file=sys.stderr)
