"""The process dies before a step, once or twice in a row, and the jobs are run again."""

from __future__ import annotations

import random
from typing import Any

from tests.faults.forked import kill_at
from tests.faults.lab import Lab, Verdict, labs_for
from tests.faults.report import Progress

QUICK, SEED = 2, 20
# A step, and the one before which the run that follows dies, None where it does not.
Kill = tuple[int, int | None]


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Kill the jobs before every step, or before some; every other time also the run that follows."""
    dice, broken = random.Random(SEED), []
    with labs_for(quick) as labs:
        steps = len(labs.steps())
        at = sorted(dice.sample(range(steps), QUICK)) if quick else range(steps)
        cases = [(step, dice.randrange(steps) if place % 2 else None) for place, step in enumerate(at)]
        for case, verdict in progress(labs.tried(judged, cases), len(cases)):
            broken += [f"killed before {case[0]}, then {case[1]}: {verdict}"] if verdict else []
    twice = sum(case[1] is not None for case in cases)
    return {"steps": steps, "killed": len(cases), "twice": twice, "broken": sorted(broken)}


def judged(lab: Lab, case: Kill) -> Verdict:
    """Kill the jobs at the steps of a case; say what the tables lack once they have run to their end."""
    for step in case:
        if step is not None:
            ended = lab.run(kill_at(step))
            if ended.error:
                return f"failed before it was killed: {ended.error}"
    return lab.recovered()
