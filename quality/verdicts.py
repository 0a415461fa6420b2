"""Frames of deviations -> verdicts in the history and on the pages, and a stop where a rule does not hold."""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Literal

from lakehouse.settings import Settings
from lakehouse.spark.deviations import REJECTIONS, WARNINGS, Frame
from lakehouse.storage.checked import Passed
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.damaged import DamagedFile
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.newest_commits import Commits
from quality.checkpoint import judge, report_page
from quality.gate import GateFailed, Verdict
from quality.history import append

log = logging.getLogger(__name__)


def subject_of(query: str) -> str:
    """Return what the history calls a registered query, which may be named like a stream."""
    return f"query-{query}"


def unless_passed(
    settings: Settings,
    subject: str,
    tables: Collection[Location],
    definition: str,
    check: Callable[[], dict[str, Any]],
) -> dict[str, Any]:
    """Return what a check of these tables returns; ``unchanged`` where it passed before and no table changed since.

    A check of another day, version, definition or limits is made again. Cost of one that is not: a look at the
    tables' newest commits.
    """
    rules = f"{version('tidemark')} {definition} {settings.quality.model_dump_json()}"
    now = Passed(f"{datetime.now(UTC):%Y-%m-%d}", rules, Commits(*tables)())
    path = settings.layout.passed(subject)
    before = Passed.read(path)
    if before is not None and before.is_of(now):
        return {**before.figures, "unchanged": True}
    figures = check()
    replace(now, figures=figures).write(path)
    return figures


def record_verdicts(
    settings: Settings,
    name: str,
    frames: Sequence[Frame],
    through: int,
    kind: Literal["stream", "query"] = "stream",
    examples: Callable[[], Sequence[str]] = tuple,
) -> dict[str, Any]:
    """Judge what was measured of a stream or query through a batch, note the verdicts, and return how many and where.

    ``examples``: lines about rejected records, made only if a rule does not hold. Raises GateFailed when a rule does
    not hold; the verdicts are in the history all the same.
    """
    layout, subject = settings.layout, name if kind == "stream" else subject_of(name)
    verdicts = judge(settings, subject, [frame for frame in frames if frame.table != REJECTIONS])
    verdicts += [
        verdict for frame in frames if frame.table == REJECTIONS for verdict in _counted(subject, frame)
    ]
    append(layout, subject, through, verdicts)
    crash_point("check.verdicts-appended")
    broken = [verdict for verdict in verdicts if not verdict.success]
    failed = [verdict for verdict in broken if verdict.table not in WARNINGS]
    for warned in (verdict for verdict in broken if verdict.table in WARNINGS):
        log.warning("%s %s: %s", kind, name, warned)
    report = report_page(layout)
    if failed:
        raise GateFailed(name, failed, report, kind, _readable(examples))
    return {
        "checks": len(verdicts),
        "failed": 0,
        "warned": len(broken),
        "through": through,
        "report": str(report),
    }


def _counted(subject: str, frame: Frame) -> Iterator[Verdict]:
    """Yield rules that hold of every row that was accepted, with what they rejected."""
    for name, rows in frame.rows[0].items():
        says, seen, counts = frame.says[name], frame.seen[name], frame.counts[name]
        yield Verdict(subject, frame.table, name, True, rows, "rejected", says, "", seen, counts)


def _readable(examples: Callable[[], Sequence[str]]) -> Sequence[str]:
    """Return examples; none where a table that a rule is about is damaged, because the rule is what counts."""
    try:
        return examples()
    except (DamagedFile, OSError, ValueError):
        return ()
