"""From a step on every change of a file fails, as on a disk that is full: jobs may fail, nothing may be lost."""

from __future__ import annotations

import errno
import random
from typing import Any

from tests.faults.forked import fail_from
from tests.faults.lab import Lab, Verdict, labs_for
from tests.faults.report import Progress

CODES = {
    "ENOSPC": errno.ENOSPC,
    "EROFS": errno.EROFS,
    "EMFILE": errno.EMFILE,
    "EIO": errno.EIO,
}
EACH, QUICK, SEED = 30, 1, 21
# A kind of error, and the step from which it comes.
Case = tuple[str, int]


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Try each kind of error from some steps on."""
    dice, broken = random.Random(SEED), []
    with labs_for(quick) as labs:
        steps = range(len(labs.steps()))
        cases = [(name, step) for name in CODES for step in dice.sample(steps, QUICK if quick else EACH)]
        for case, verdict in progress(labs.tried(judged, cases), len(cases)):
            broken += [f"{case[0]} from {case[1]}: {verdict}"] if verdict else []
    return {"codes": ", ".join(CODES), "tried": len(cases), "broken": sorted(broken)}


def judged(lab: Lab, case: Case) -> Verdict:
    """Let steps fail; say what the tables lack once the jobs have run without faults."""
    name, step = case
    ended = lab.run(fail_from(step, CODES[name]))
    if ended.is_killed:
        return "the process died"
    return lab.recovered()
