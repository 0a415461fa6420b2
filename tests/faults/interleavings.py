"""Up to eight writers of one stream, whose steps interleave as Hypothesis draws them: no row is lost or there twice.

Each writer is a process that takes the real leases: it appends what has landed, builds or folds rollups, merges files,
vacuums, publishes, takes rows back out, builds nodes again or puts conflicts through again. It stands still before
every change of a file until it is moved on (writers_in_turn.py). A history is a list of such beginnings and moves. Most
writers begin what no other one is at; some contend for a lease that is held, and may be turned away. A history that
breaks something is made shorter until nothing can be left out, as far as time allows.

What must be there at the end is known from what has landed alone. Every second file is wrong; the one behind it says
of two of its rows what is right, a conflict while the wrong ones stand. Once the wrong files are taken out and
conflicts are put through again, every row of the others is there once, whatever came in which order. Without
corrections, which need Spark, it is enough that of two rows that contradict each other one is there. A quick run makes
none, and does not publish either.

The harness proves itself: with leases switched off a history must break, and be shorter in the end.

    python -m tests.faults.interleavings CONFIG    a JVM that writers share, until its input ends
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, Verbosity, seed
from hypothesis import settings as Settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.faults.forked import attempt
from tests.faults.interleaved import CORRECTIONS, LEASES, OPERATIONS, Landed, base, settled
from tests.faults.lab import done, import_jobs
from tests.faults.report import Progress
from tests.faults.writers_in_turn import Writer, bring_to_end

MOST_WRITERS, MOST_STEPS, TO_THE_END = 8, 25, 1_000
# One in so many begins what another one may be at.
CONTENDS = 8
PLACES, TURNS = st.integers(0, MOST_WRITERS - 1), st.integers(0, 99)
# How many small files are folded or merged here: in earnest, more than are made here.
FEW = 2
TURNED_AWAY = "turned away"
# What a process needs to work on a JVM that is there; nothing where it is to start its own.
Environment = dict[str, str]


@dataclass(frozen=True)
class Case:
    """What one process tries: histories drawn from a seed, so many of so many choices each."""

    seed: int
    histories: int
    choices: int
    publishes: bool = False
    corrects: bool = False
    with_leases: bool = True


CASES = [Case(number, 6, 100, publishes=True, corrects=True) for number in range(4)]
QUICK = [Case(0, 2, 30)]
# Histories are tried until one breaks; of few choices, since each that is tried to make it shorter takes seconds.
WITHOUT_LEASES = Case(0, 50, 15, with_leases=False)
# Of this process: its folder, the lakehouse that histories begin with, the JVM that writers share.
_FOLDER: list[Path] = []
_BASE: list[Landed] = []
_JVM: list[tuple[subprocess.Popen[bytes], Environment]] = []


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Try the histories of some seeds; and, unless quick, whether they break without leases."""
    cases = QUICK if quick else [*CASES, WITHOUT_LEASES]
    found: dict[Case, dict[str, Any]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-faults-") as folder,
        ProcessPoolExecutor(1 if quick else os.cpu_count(), get_context("spawn"), _begin, (folder,)) as pool,
    ):
        waiting = {pool.submit(judged, case): case for case in cases}
        for each in progress(as_completed(waiting), len(cases)):
            found[waiting[each]] = each.result()
    proof = found.pop(WITHOUT_LEASES, None)
    figures = {
        word: sum(each[word] for each in found.values())
        for word in ("tried", "operations", "steps", "turned_away")
    }
    broken = [f"seed {case.seed}: {each['broken']}" for case, each in found.items() if each["broken"]]
    if proof is not None:
        broken += [] if proof["broken"] else ["without leases nothing broke"]
        figures |= {"without_leases": _without_traceback(proof["broken"])}
    return {
        **figures,
        "seeds": ", ".join(str(case.seed) for case in sorted(found, key=lambda each: each.seed)),
        "broken": sorted(broken),
    }


def _without_traceback(broken: str) -> str:
    """Return a history with the error alone that ended it: lines of a traceback name files of one machine."""
    history, found, traceback = broken.partition("Traceback")
    return history + traceback.strip().splitlines()[-1] if found else broken


def _begin(parent: str) -> None:
    import_jobs()
    _FOLDER.append(Path(tempfile.mkdtemp(dir=parent)))


def judged(case: Case) -> dict[str, Any]:
    """Try the histories of a case; return counts of what was done, and the shortest history that broke something."""
    machine: type[Interleaving] = type(
        "Own", (Interleaving,), {"case": case, "counts": Counter(), "broke": []}
    )
    settings = Settings(
        max_examples=case.histories,
        stateful_step_count=case.choices,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    # What broke is kept: what depends on the machine's speed may not break again.
    with suppress(AssertionError, BaseExceptionGroup, Flaky):
        run_state_machine_as_test(seed(case.seed)(machine), settings=settings)
    words = ("tried", "operations", "steps", "turned_away")
    shortest = min(machine.broke, key=len, default=list[str]())
    return {**{word: machine.counts[word] for word in words}, "broken": "; ".join(shortest)}


class Interleaving(RuleBasedStateMachine):
    """A lakehouse and its writers. A history ends with all of them at their ends, and with all that has landed in."""

    case: Case
    # Of all histories of a case: what was done; and of each that broke, its choices and what is wrong.
    counts: Counter[str]
    broke: list[list[str]]

    def __init__(self) -> None:
        super().__init__()
        self.landed, self.begun = _put_back(self.case.publishes), list[Writer]()
        # By place those that have not ended; what is drawn must not depend on how far they are.
        self.at_work: dict[int, Writer] = {}
        self.history: list[str] = []
        self.environment = _shared_jvm(self.landed.config) if self.case.corrects else {}
        if self.environment:
            # The tables are others by now than those that the JVM has seen last.
            done(attempt(partial(_with, self.environment, _forgotten)))
        names = [name for name in OPERATIONS if self.case.publishes or name != "publish"]
        self.names = [*names, *(CORRECTIONS if self.case.corrects else ())]

    @rule(place=PLACES, turn=TURNS, steps=st.integers(1, MOST_STEPS))
    def step(self, place: int, turn: int, steps: int) -> None:
        """The writer at a place makes some steps; where there is none, one begins what no other one is at."""
        if place in self.at_work:
            self._move(place, steps)
            return
        held = {table for writer in self.at_work.values() for table in LEASES[writer.name]}
        if free := [name for name in self.names if held.isdisjoint(LEASES[name])]:
            self._begin(place, free[turn % len(free)], turn)

    @rule(place=PLACES, turn=TURNS)
    def contend(self, place: int, turn: int) -> None:
        """The writer at a place goes on until it ends or waits; where there is none, one may begin anything."""
        if place in self.at_work:
            self._move(place, TO_THE_END)
        elif turn % CONTENDS == 0:
            self._begin(place, self.names[turn // CONTENDS % len(self.names)], turn)

    def teardown(self) -> None:
        """Bring all to their ends, and say what is wrong then.

        Raises:
            AssertionError: if anything is.
        """
        try:
            bring_to_end(self.begun)
        finally:
            for writer in self.begun:
                writer.kill()
        said = [f"{writer.name}: {writer.error}" for writer in self.begun if writer.error] + self._faults()
        turned = sum(writer.result == TURNED_AWAY for writer in self.begun)
        steps = sum(writer.steps for writer in self.begun)
        self.counts.update(tried=1, operations=len(self.begun), steps=steps, turned_away=turned)
        if said:
            self.broke.append([*self.history, *said])
            raise AssertionError("; ".join(said))

    def _faults(self) -> list[str]:
        ended = attempt(partial(_with, self.environment, partial(settled, self.landed, self.case.corrects)))
        return [ended.error] if ended.error else list(self.landed.faults(ended.result, self.case.corrects))

    def _begin(self, place: int, name: str, turn: int) -> None:
        told = list[int]()
        if name in ("retract", "rebuild"):
            wrong = [number for number in range(self.landed.files) if self.landed.is_wrong(number)]
            told.append(wrong[turn % len(wrong)])
        if name == "append":
            self.landed.land()
        work = partial(_done, self.environment, self.case.with_leases, name, self.landed, *told)
        self.at_work[place] = Writer(name, work, self.landed.config.parent / "var")
        self.begun.append(self.at_work[place])
        self.history.append(" ".join([f"{len(self.begun)} begins to", name, *map(str, told)]))

    def _move(self, place: int, steps: int) -> None:
        writer = self.at_work[place]
        before = writer.steps
        writer.move(steps)
        number, ended = self.begun.index(writer) + 1, ", its last" * writer.has_ended
        self.history.append(f"{number} makes {writer.steps - before} steps{ended}")
        if writer.has_ended:
            del self.at_work[place]


def _put_back(publishes: bool) -> Landed:
    lake, kept = _FOLDER[0] / "lake", _FOLDER[0] / "kept"
    if _BASE and _BASE[0].publishes != publishes:
        _BASE.clear()
        shutil.rmtree(kept)
        shutil.rmtree(lake)
    if not _BASE:
        _BASE.append(done(attempt(partial(base, lake, publishes))))  # type: ignore[arg-type]
        shutil.copytree(lake, kept)
    shutil.rmtree(lake)
    shutil.copytree(kept, lake)
    return replace(_BASE[0])


def _done(environment: Environment, with_leases: bool, name: str, landed: Landed, *told: int) -> str:
    """Do an operation; say whether its writer was turned away."""
    from lakehouse.storage.control import lease

    taken = lease._taken

    def at_once(take: Any, timeout_s: float, holder: Any) -> Any:
        return taken(take, 0 if timeout_s == lease.WAIT_S else timeout_s, holder)

    # Who holds it stands still until the one that would wait has ended.
    with ExitStack() as switched, patch.object(lease, "_taken", at_once):
        if not with_leases:
            switched.enter_context(patch.object(lease, "_is_locked", lambda file: True))
        try:
            _with(environment, partial({**OPERATIONS, **CORRECTIONS}[name], landed, *told))
        except lease.LeaseHeld:
            return TURNED_AWAY
    return "done"


def _with(environment: Environment, work: Callable[[], Any]) -> Any:
    """Work on the JVM that is shared, if there is one, where few files are as many as are folded or merged."""
    from lakehouse.rollup import fold_plan
    from lakehouse.storage.tables import table_maintenance

    if environment:
        from tests.support.killing import attach

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
    from lakehouse.settings import load_settings
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
