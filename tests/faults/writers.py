"""Several processes run jobs on one home at once, in any order, and one of them dies: no row is lost or there twice.

Each case is a seed: of how many processes there are, which jobs each runs, and before which change of a file the first
of them dies.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import traceback
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults import subject
from tests.faults.forked import attempt, hook_of, kill_at
from tests.faults.lab import Lab, Verdict, done, labs_for
from tests.faults.report import Progress

CASES, QUICK, JOBS, LAST_STEP = 60, 2, 12, 60


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Try some seeds."""
    cases, broken = range(QUICK if quick else CASES), []
    with labs_for(quick) as labs:
        for case, verdict in progress(labs.tried(judged, cases), len(cases)):
            broken += [f"seed {case}: {verdict}"] if verdict else []
    return {"tried": len(cases), "broken": sorted(broken)}


def judged(lab: Lab, seed: int) -> Verdict:
    """Let processes run jobs at once; say what went wrong, or what the tables lack afterwards."""
    found = attempt(partial(_raced, lab.config, seed))
    said: list[str] = done(found)  # type: ignore[assignment]
    return "; ".join(said) or lab.recovered()


def _raced(config: Path, seed: int) -> list[str]:
    """Fork processes that run jobs; return errors that are not of a held lease."""
    dice = random.Random(seed)
    count = dice.randint(2, 8)
    with tempfile.TemporaryDirectory(prefix="tidemark-faults-") as name:
        children = []
        for number in range(count):
            mine = random.Random(f"{seed} {number}")
            child = os.fork()
            if child == 0:
                _run(
                    config,
                    mine,
                    Path(name) / str(number),
                    mine.randint(0, LAST_STEP) if number == 0 else None,
                )
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        return [path.read_text() for path in sorted(Path(name).iterdir())]


def _run(config: Path, dice: random.Random, told: Path, dies_at: int | None) -> None:
    from lakehouse.storage.control.lease import LeaseHeld

    try:
        if dies_at is not None:
            sys.addaudithook(hook_of(str(config.parent), [], kill_at(dies_at), [True]))
        jobs = subject.jobs_of(config)
        for _ in range(JOBS):
            job, name = dice.choice(jobs)
            with suppress(LeaseHeld):
                job(name)
    except BaseException:
        told.write_text(traceback.format_exc(limit=-4))
    finally:
        os._exit(0)
