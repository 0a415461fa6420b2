"""Files of the home are deleted, emptied or halved: the jobs then come to the same, or refuse with what to do.

Rows that are in no other file cannot come back. A job, a reader or a check of quality must then say so: what is wrong
is an end without an error whose tables differ.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults import subject
from tests.faults.forked import attempt
from tests.faults.lab import Lab, Verdict, differences, done, gone_on, labs_for
from tests.faults.report import Progress
from tests.queries.multiway.streams import NAMES

DAMAGES = ("deleted", "emptied", "halved")
QUICK, SEED = 2, 22
# Of a file's name what differs from one home to the next, and from one stream to another.
_OWN = re.compile(
    rf"[0-9a-f]{{32}}|[0-9a-f]{{8}}-[0-9a-f-]{{27}}|[0-9a-f]{{16}}|\d+|\b(?:{'|'.join(NAMES)})\b"
)
# What is no state of the data.
_SPARED = ("landing", "queries", "tidemark.toml")
_LOCKS = (".lease", ".lock")
# A shape of files, of which the newest is damaged, and how.
Case = tuple[str, str]


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Damage one file of every shape that a home has, in each way."""
    counts: dict[str, int] = {"same": 0, "refused": 0, "told": 0}
    said, broken = list[str](), list[str]()
    with labs_for(quick) as labs:
        cases = [(shape, how) for shape in labs.of_one(_listed) for how in DAMAGES]
        if quick:
            cases = random.Random(SEED).sample(cases, QUICK)
        for (shape, how), verdict in progress(labs.tried(judged, cases), len(cases)):
            outcome = verdict.partition(":")[0]
            (said if outcome in counts else broken).append(f"{shape} {how}: {verdict}")
            if outcome in counts:
                counts[outcome] += 1
    shapes = len({shape for shape, _ in cases})
    return {"shapes": shapes, "tried": len(cases), **counts, "broken": sorted(broken), "said": sorted(said)}


def judged(lab: Lab, case: Case) -> Verdict:
    """Run the jobs, damage the newest file of a shape, let more rows land and run them again."""
    done(lab.run(lambda number, what: None))
    _damage(_shapes(lab)[case[0]], case[1])
    found = attempt(partial(_gone_on, lab.config))
    if found.error:
        return f"refused: {_says(found.error, lab)}"
    wrong = differences(lab.expected, found.result)
    if not wrong:
        return "same"
    checked = attempt(partial(subject.check, lab.config))
    return f"told: {_says(checked.error, lab)}" if checked.error else f"wrong: {wrong}"


def _gone_on(config: Path) -> subject.Content:
    """Go on as every run does whose outcome is recorded: with errors that name the damage."""
    from lakehouse.storage.layout import Home
    from lakehouse.storage.tables.integrity import naming_damage

    with naming_damage(Home(config.parent / "var")):
        return gone_on(config)


def _listed(lab: Lab) -> list[str]:
    done(lab.run(lambda number, what: None))
    return sorted(_shapes(lab))


def _shapes(lab: Lab) -> dict[str, Path]:
    """Return the newest file of each shape of names."""
    found: dict[str, Path] = {}
    for path in sorted(_files(lab.config.parent), key=lambda path: (path.stat().st_mtime_ns, path)):
        found[_OWN.sub("#", str(path.relative_to(lab.config.parent)))] = path
    return found


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        is_spared = path.relative_to(folder).parts[0] in _SPARED or path.suffix in _LOCKS
        if path.is_file() and not is_spared:
            yield path


def _damage(path: Path, how: str) -> None:
    if how == "deleted":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 if how == "halved" else 0])


def _says(error: str, lab: Lab) -> str:
    lines = [line for line in error.splitlines() if line and not line.startswith((" ", "report:"))]
    return lines[-1].replace(str(lab.config.parent), "")
