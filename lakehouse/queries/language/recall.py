"""The clauses of a recall: RECALL with its share and period, EVERY, and SPARE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.algorithms.late_join.margin import SPARE_ROWS
from lakehouse.config.durations import format_duration
from lakehouse.queries.language.text import duration
from lakehouse.queries.language.tokens import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.queries.language.text import ClauseReader, Clauses
    from lakehouse.queries.language.tokens import Faults

_SECOND = 1_000_000


def recall(reader: ClauseReader, clause: str) -> bool:
    """Read a share, OVER and a period."""
    offset = reader.offset()
    share = reader.number("a share between 0 and 1, such as 0.95")
    if share is None:
        return False
    if not 0 < share < 1:
        reader.faults.add(offset, f"a recall of {float(share):g}", "a share between 0 and 1, both left out")
    reader.clauses.numbers[clause] = float(share)
    if not reader.take("OVER"):
        reader.refuse("OVER and the period, such as OVER 1 MINUTE")
        return False
    return duration(reader, "OVER")


def spare(reader: ClauseReader, clause: str) -> bool:
    """Read a whole number and ROWS."""
    offset = reader.offset()
    rows = reader.number("a number of rows, such as 1024")
    if rows is None:
        return False
    if rows < 0 or rows != int(rows):
        reader.faults.add(offset, f"{float(rows):g} rows", "a whole number of rows, from 0")
    reader.clauses.numbers[clause] = int(rows)
    if not reader.take("ROWS"):
        reader.refuse("ROWS")
        return False
    return True


def timing(clauses: Clauses, faults: Faults) -> tuple[int, int]:
    """Return period and step."""
    step = clauses.spans.get("EVERY", Span(_SECOND, 0))
    period = clauses.spans.get("OVER", step)
    if period.us % step.us:
        expected = f"a multiple of EVERY, {format_duration(step.us)}"
        faults.add(period.offset, f"a period of {format_duration(period.us)}", expected)
    return period.us, step.us


def stated(
    clauses: Clauses, faults: Faults, by_hand: str | None = None, belonging: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the recall that a query states and what belongs to it, as its fields; none of a query without RECALL.

    ``by_hand``: a clause that says what RECALL chooses, if there is one; ``belonging``: those that say nothing without
    it.
    """
    places = clauses.places
    if "RECALL" not in places:
        for clause in places.keys() & set(belonging):
            faults.add(
                places[clause], f"{clause} without RECALL", "RECALL and its period too, or none of both"
            )
        return {"recall": None}
    if by_hand is not None and by_hand in places:
        expected = f"one of both: RECALL chooses what {by_hand} says"
        faults.add(places[by_hand], f"{by_hand} beside RECALL", expected)
    period_us, step_us = timing(clauses, faults)
    spared = int(clauses.numbers.get("SPARE", SPARE_ROWS))
    return {
        "recall": clauses.numbers.get("RECALL"),
        "period_us": period_us,
        "step_us": step_us,
        "spare_rows": spared,
    }
