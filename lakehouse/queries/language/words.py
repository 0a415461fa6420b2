"""Words that queries of several kinds are described with: streams, clocks, slack and conditions."""

from collections.abc import Sequence

from lakehouse.config.durations import format_duration
from lakehouse.queries.kind import Side


def from_in_words(sides: Sequence[Side]) -> str:
    """Return the streams with their windows, and with their alias if it says more than the name."""
    return " join ".join(map(_side_in_words, sides))


def _side_in_words(side: Side) -> str:
    window_us = getattr(side, "window_us", None)
    window = "" if window_us is None else f" [{format_duration(window_us)}]"
    return f"{side.stream}{window}{'' if side.alias == side.stream else f' {side.alias}'}"


def clock_in_words(idle_us: int | None, ahead_us: int | None, side: str = "stream") -> str:
    """Return when a side counts as silent, and when a row's clock counts as wrong."""
    idle = f"waits for a silent {side}"
    if idle_us is not None:
        idle = f"goes on without a {side} that is silent for {format_duration(idle_us)}"
    if ahead_us is None:
        return f"{idle}; every event time is believed"
    return f"{idle}; refuses event times more than {format_duration(ahead_us)} ahead"


def least_in_words(period_us: int | None, share: float, held: str, spare_rows: int) -> str:
    """Return by which rule slack is chosen; ``share``: of past results, ``held``: what may hold ``spare_rows``."""
    period = format_duration(period_us or 0)
    least = f"the least memory with which each past {period} would have reached {share:.6g}"
    return f"{least}, or more while {held} at most {spare_rows:,} rows" if spare_rows else least


def condition_in_words(text: str) -> str:
    """Return a condition without the quotes of names.

    >>> condition_in_words("`proto` = 'tcp'")
    "proto = 'tcp'"
    """
    return text.replace("`", "")
