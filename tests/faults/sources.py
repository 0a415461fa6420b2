"""A landed file is cut, emptied, replaced, removed or unreadable while an ingest has it in hand, or its folder goes.

That happens at any moment of the ingest of a stream: before each file that it opens, each folder that it lists and
each change of a file; the process goes on, or dies there. Then what has landed does so again, under other names. No
run may fail, the ledger counts what the tables hold, and rows with an identity are there once, as without the fault.
Rows that lack a part of theirs are accepted as often as they come.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from tests.faults import subject
from tests.faults.forked import attempt, step_of
from tests.faults.lab import NEW_PARTS, Lab, Verdict, differences, done, labs_for
from tests.faults.report import Progress

STREAM, LAST = "doors", "at ingest.ledger-appended"
# So many are drawn of all for a quick run: each takes five runs of a job.
QUICK, SEED = 2, 7
# At which moment, what is done to the file, and whether the process dies then.
Case = tuple[int, str, bool]
# Of the laboratory of this process: what is there without a fault.
_EXPECTED: dict[Path, subject.Content] = {}


def run(quick: bool, progress: Progress) -> dict[str, Any]:
    """Try each fault at each moment."""
    broken = []
    with labs_for(quick) as labs:
        moments = labs.of_one(moments_of)
        every: list[Case] = list(product(range(len(moments)), FAULTS, (False, True)))
        cases = random.Random(SEED).sample(every, QUICK) if quick else every
        for (moment, fault, dies), verdict in progress(labs.tried(judged, cases), len(cases)):
            where = f"{fault} before {moments[moment]}" + (", where the process dies" if dies else "")
            broken += [f"{where}: {verdict}"] if verdict else []
    return {"tried": len(cases), "moments": len(moments), "broken": sorted(broken)}


def moments_of(lab: Lab) -> tuple[str, ...]:
    """Return what the ingest of the stream does, step by step, reading included."""
    found: tuple[str, ...] = done(attempt(partial(_ingested, lab.config, lambda number: None)))  # type: ignore[assignment]
    return found


def judged(lab: Lab, case: Case) -> Verdict:
    """Let a fault meet an ingest; say what went wrong, or how the rows differ once all has landed again."""
    moment, fault, dies = case
    folder = lab.config.parent / "landing" / STREAM
    landed = {number: (folder / f"{number}.ndjson").read_bytes() for number in NEW_PARTS}
    if lab.config not in _EXPECTED:
        _EXPECTED[lab.config] = done(attempt(partial(_identified, lab.config)))
        lab.restore()

    def at(number: int) -> None:
        if number == moment:
            FAULTS[fault](folder / f"{NEW_PARTS[-1]}.ndjson")
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)

    ended = attempt(partial(_ingested, lab.config, at))
    if ended.error:
        return f"the ingest fails: {ended.error}"
    wrong = attempt(partial(_uncounted, lab.config))
    if wrong.error or wrong.result:
        return wrong.error or str(wrong.result)
    folder.mkdir(exist_ok=True)
    for number, whole in landed.items():
        (folder / f"again-{number}.ndjson").write_bytes(whole)
    found = attempt(partial(_identified, lab.config))
    return found.error or differences(_EXPECTED[lab.config], found.result)


def _identified(config: Path) -> subject.Content:
    """Take in what has landed; return what rows there are that have an identity, and how they are counted."""
    said = _uncounted(config)
    from lakehouse.settings import load_settings
    from lakehouse.storage.tables.table_log import read_columns

    rows = read_columns(load_settings(config).layout.raw(STREAM), ("event_us", "room", "floor", "value"))
    return {"rows": subject.digest(row for row in rows if row[1] is not None), "ledger": said}


def _uncounted(config: Path) -> Verdict:
    """Take in what has landed; say where the ledger does not count what the tables hold."""
    from jobs import build_rollups
    from lakehouse.settings import load_settings
    from lakehouse.spark.session import build_session
    from lakehouse.storage.tables.table_log import read_rows

    settings = load_settings(config)
    _ingested(config, lambda number: None)
    build_rollups.run(settings, build_session(settings), STREAM)
    layout = settings.layout
    ledger = read_rows(layout.ledger(STREAM))
    told = {word: sum(row[word] or 0 for row in ledger) for word in subject.COUNTS}
    placed = told["accepted"] + told["quarantined"] + told["duplicates"]
    said = [f"{told['received']} came in, {placed} are accounted for"] * (told["received"] != placed)
    for word, table in (("accepted", layout.raw(STREAM)), ("quarantined", layout.quarantine(STREAM))):
        held = len(read_rows(table))
        said += [f"{told[word]} {word} by the ledger, {held} there"] * (told[word] != held)
    return "; ".join(said)


def _ingested(config: Path, at_moment: Callable[[int], None]) -> tuple[str, ...]:
    """Run the stream's ingest; ``at_moment`` hears of each moment up to the last. Return what they are."""
    from jobs import ingest
    from lakehouse.settings import load_settings
    from lakehouse.spark.session import build_session

    settings, moments, is_on = load_settings(config), list[str](), [True]
    home = str(config.parent)

    def hook(event: str, told: Any) -> None:
        if is_on[0] and (what := step_of(event, told, home) or _reading(event, told, home)):
            is_on[0] = False
            try:
                moments.append(what)
                at_moment(len(moments) - 1)
            finally:
                is_on[0] = what != LAST

    sys.addaudithook(hook)
    ingest.run(settings, build_session(settings), STREAM)
    is_on[0] = False
    return tuple(moments)


def _reading(event: str, told: Any, home: str) -> str:
    """Return what reads a landed file or lists its folder."""
    if event not in ("open", "os.scandir", "os.listdir", "glob.glob"):
        return ""
    text = told[0] if isinstance(told[0], str) else ""
    landing = f"{home}/landing/{STREAM}"
    return f"{event} {text.removeprefix(home)}" if text.startswith(landing) else ""


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _emptied(path: Path) -> None:
    os.truncate(path, 0)


def _replaced(path: Path) -> None:
    """Another file of the same size takes its name."""
    other = path.with_suffix(".tmp")
    other.write_bytes((b"not a reading\n" * 10_000)[: path.stat().st_size])
    other.replace(path)


def _unreadable(path: Path) -> None:
    """Whoever opens it meets an error, the superuser too."""
    path.unlink()
    path.mkdir()


def _without_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


FAULTS: dict[str, Callable[[Path], None]] = {
    "cut": _cut,
    "emptied": _emptied,
    "replaced": _replaced,
    "removed": Path.unlink,
    "unreadable": _unreadable,
    "folder gone": _without_folder,
}
