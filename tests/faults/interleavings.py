"""Two to eight writers of one stream, whose steps interleave as a seed draws it: no row is lost or there twice.

Each writer is a process that takes the real leases: it appends what has landed, builds or folds rollups, merges files,
vacuums, publishes, takes rows back out, builds nodes again or puts conflicts through again. It stands still before
every change of a file until it is moved on (writers_in_turn.py). A writer that is turned away is fine.

What must be there at the end is known from what has landed alone. Every second file is wrong; the one behind it says
of two of its rows what is right, a conflict while the wrong ones stand. Once the wrong files are taken out and
conflicts are put through again, every row of the others is there once, whatever came in which order. Without
corrections, which need Spark, it is enough that of two rows that contradict each other one is there. A quick run does
not publish either.

    python -m tests.faults.interleavings CONFIG    a JVM that writers share, until its input ends
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.faults.forked import attempt
from tests.faults.interleaved import CORRECTIONS, OPERATIONS, Landed, base, settled
from tests.faults.lab import Verdict, done, import_jobs
from tests.faults.report import Progress
from tests.faults.writers_in_turn import Writer, bring_to_end

# Of the cases, which are seeds, every so many is one with corrections; a quick run has none of these.
CASES, QUICK, CORRECTED = 24, 1, 8
LEAST_WRITERS, MOST_WRITERS, MOST_STEPS = 2, 8, 25
CHOICES, QUICK_CHOICES = 100, 40
# How many small files are folded or merged here: in earnest, more than are made here.
FEW = 2
COUNTS = ("operations", "steps", "turned_away")
# A seed, whether versions are published, and whether corrections are among the operations.
Case = tuple[int, bool, bool]
# What a process needs to work on a JVM that is there; nothing where it is to start its own.
Environment = dict[str, str]
# Of this process: its folder, the lakehouse that cases begin with, the JVM that writers share.
_FOLDER: list[Path] = []
_BASE: list[Landed] = []
_JVM: list[tuple[subprocess.Popen[bytes], Environment]] = []


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Try some seeds."""
    cases = [
        (number, not quick, not quick and number % CORRECTED == 0)
        for number in range(QUICK if quick else CASES)
    ]
    counts, broken, spawn = Counter[str](), list[str](), get_context("spawn")
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-faults-") as folder,
        ProcessPoolExecutor(1 if quick else os.cpu_count(), spawn, _begin, (folder,)) as pool,
    ):
        waiting = {pool.submit(judged, case): case for case in cases}
        for each in progress(as_completed(waiting), len(cases)):
            if each.result().startswith("{"):
                counts.update(json.loads(each.result()))
            else:
                broken.append(f"seed {waiting[each][0]}: {each.result()}")
    corrected = sum(with_corrections for *_, with_corrections in cases)
    figures = {word: counts[word] for word in COUNTS}
    return {"tried": len(cases), "corrected": corrected, **figures, "broken": sorted(broken)}


def _begin(parent: str) -> None:
    import_jobs()
    _FOLDER.append(Path(tempfile.mkdtemp(dir=parent)))


def judged(case: Case) -> Verdict:
    """Let writers interleave as a seed draws it; return what they did as JSON, or what is wrong afterwards."""
    number, publishes, with_corrections = case
    landed = _put_back(publishes)
    environment = _shared_jvm(landed.config) if with_corrections else {}
    if environment:
        # The tables are others by now than those that the JVM has seen last.
        done(attempt(partial(_with, environment, _forgotten)))
    counts, said = _interleaved(landed, random.Random(number), environment)
    ended = attempt(partial(_with, environment, partial(settled, landed, with_corrections)))
    said += [ended.error] if ended.error else landed.faults(ended.result, with_corrections)
    return "; ".join(said) or json.dumps(counts)


def _put_back(publishes: bool) -> Landed:
    lake, kept = _FOLDER[0] / "lake", _FOLDER[0] / "kept"
    if not _BASE:
        _BASE.append(done(attempt(partial(base, lake, publishes))))  # type: ignore[arg-type]
        shutil.copytree(lake, kept)
    shutil.rmtree(lake)
    shutil.copytree(kept, lake)
    return replace(_BASE[0])


def _interleaved(
    landed: Landed, dice: random.Random, environment: Environment
) -> tuple[Counter[str], list[str]]:
    """Let writers begin something and move on, as is drawn, and bring all to an end; return counts and errors."""
    writers: list[Writer | None] = [None] * dice.randint(LEAST_WRITERS, MOST_WRITERS)
    begun: list[Writer] = []
    try:
        for _ in range(CHOICES if landed.publishes else QUICK_CHOICES):
            place = dice.randrange(len(writers))
            writer = writers[place]
            if writer is None:
                writers[place] = _begun(landed, dice, environment)
                begun.append(writers[place])  # type: ignore[arg-type]
            else:
                writer.move(dice.randint(1, MOST_STEPS))
                writers[place] = None if writer.has_ended else writer
        bring_to_end(begun)
    finally:
        for writer in begun:
            writer.kill()
    turned = sum(writer.result == TURNED_AWAY for writer in begun)
    steps = sum(writer.steps for writer in begun)
    counts = Counter(operations=len(begun), steps=steps, turned_away=turned)
    return counts, [f"{writer.name}: {writer.error}" for writer in begun if writer.error]


def _begun(landed: Landed, dice: random.Random, environment: Environment) -> Writer:
    """Let a writer begin something; what is appended lands first."""
    names = [name for name in OPERATIONS if landed.publishes or name != "publish"]
    name = dice.choice([*names, *(CORRECTIONS if environment else ())])
    wrong = [number for number in range(landed.files) if landed.is_wrong(number)]
    told = [dice.choice(wrong)] if name in ("retract", "rebuild") else []
    if name == "append":
        landed.land()
    return Writer(name, partial(_done, environment, name, landed, *told), landed.config.parent / "var")


TURNED_AWAY = "turned away"


def _done(environment: Environment, name: str, landed: Landed, *told: int) -> str:
    """Do an operation; say whether its writer was turned away."""
    from lakehouse.home.lease import LeaseHeld

    try:
        _with(environment, partial({**OPERATIONS, **CORRECTIONS}[name], landed, *told))
    except LeaseHeld:
        return TURNED_AWAY
    return "done"


def _with(environment: Environment, work: Callable[[], Any]) -> Any:
    """Work on the JVM that is shared, if there is one, where few files are as many as are folded or merged."""
    from lakehouse.home import table_maintenance
    from lakehouse.streams import fold_plan

    if environment:
        from tests.killing import attach

        os.environ.update(environment)
        attach()
    with (
        patch.object(fold_plan, "FRESH_FILES", FEW),
        patch.object(table_maintenance, "SMALL_FILES", FEW),
    ):
        return work()


def _forgotten() -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    jvm: Any = session.sparkContext._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def _shared_jvm(config: Path) -> Environment:
    """Return what a process needs to work on a JVM that is there as long as this one: starting its own takes long."""
    if not _JVM:
        command = [sys.executable, "-m", "tests.faults.interleavings", str(config)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        assert process.stdout
        _JVM.append((process, json.loads(process.stdout.readline())))
    return _JVM[0][1]


def _serve(config: Path) -> None:
    """Start a JVM, tell how to come to it, and keep it until the input ends."""
    from lakehouse.declare.settings import load_settings
    from lakehouse.spark.session import started_session

    gateway = started_session(load_settings(config)).sparkContext._gateway
    assert gateway is not None
    parameters = gateway.gateway_parameters
    told = {
        "PYSPARK_GATEWAY_PORT": str(parameters.port),
        "PYSPARK_GATEWAY_SECRET": parameters.auth_token,
        "PYSPARK_PYTHON": sys.executable,
    }
    print(json.dumps(told), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
