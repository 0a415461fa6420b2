"""Files of the home are deleted, emptied or halved: the jobs then come to the same, or refuse with what to do.

Rows that are in no other file cannot come back. A job, or a reader, must then say so: what is wrong is an end without
an error whose tables differ.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults.forked import attempt
from tests.faults.lab import Lab, Verdict, differences, done, gone_on, tried
from tests.faults.report import Progress

DAMAGES = ("deleted", "emptied", "halved")
QUICK, SEED = 6, 22
# Numbers and hashes of a file's name, which differ from one home to the next.
_NUMBERS = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f-]{27}|\d+")
# What of the home is no state of its data.
_SPARED = ("landing", "queries", "tidemark.toml")
# A shape of files, of which the newest is damaged, and how.
Case = tuple[str, str]


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Damage one file of every shape that a home has, in each way."""
    [(_, told)] = list(tried(_listed, [("", "")]))
    cases = [(shape, how) for shape in told.split("\\n") for how in DAMAGES]
    if quick:
        cases = random.Random(SEED).sample(cases, QUICK)
    counts = {"same": 0, "refused": 0}
    broken, refusals = [], set()
    for case, verdict in progress(tried(judged, cases), len(cases)):
        outcome, _, why = verdict.partition(": ")
        if outcome in counts:
            counts[outcome] += 1
            refusals.add(why)
        else:
            broken.append(f"{case[0]} {case[1]}: {verdict}")
    return {
        "shapes": len({case[0] for case in cases}),
        "tried": len(cases),
        **counts,
        "broken": sorted(broken),
    }


def judged(lab: Lab, case: Case) -> Verdict:
    """Run the jobs, damage the newest file of a shape, let more rows land and run them again."""
    done(lab.run(lambda number, what: None))
    _damage(_shapes(lab)[case[0]], case[1])
    found = attempt(partial(gone_on, lab.config))
    if found.error:
        return f"refused: {_says(found.error, lab)}"
    wrong = differences(lab.expected, found.result)
    return f"wrong: {wrong}" if wrong else "same"


def _listed(lab: Lab, case: Case) -> Verdict:
    done(lab.run(lambda number, what: None))
    return "\n".join(sorted(_shapes(lab)))


def _shapes(lab: Lab) -> dict[str, Path]:
    """Return the newest file of each shape of names."""
    found: dict[str, Path] = {}
    for path in sorted(_files(lab.config.parent), key=lambda path: (path.stat().st_mtime_ns, path)):
        found[_NUMBERS.sub("#", str(path.relative_to(lab.config.parent)))] = path
    return found


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).parts[0] not in _SPARED:
            yield path


def _damage(path: Path, how: str) -> None:
    if how == "deleted":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 if how == "halved" else 0])


def _says(error: str, lab: Lab) -> str:
    return error.strip().splitlines()[-1].replace(str(lab.config.parent), "")
