"""Descriptions that kinds of query share: streams, clocks, and conditions with the reason for their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakehouse.declare.durations import format_duration
from lakehouse.queries.kind import Conjunct, Side


@dataclass(frozen=True)
class Ranked:
    """A measured condition: rows that it handles a second, the share that it passes, its written place."""

    text: str
    handled_per_s: float
    selectivity: float
    written: int

    @property
    def filtered_per_s(self) -> float:
        """(1 - S) n: rows that it removes a second while it runs."""
        return (1 - self.selectivity) * self.handled_per_s

    @property
    def us_a_row(self) -> float:
        """Microseconds per row."""
        return 1e6 / self.handled_per_s


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


def condition_in_words(text: str) -> str:
    """Return a condition without the quotes of names.

    >>> condition_in_words("`proto` = 'tcp'")
    "proto = 'tcp'"
    """
    return text.replace("`", "")


def kind_in_words(conjunct: Conjunct) -> str:
    """Return how a condition is evaluated."""
    if conjunct.call is None:
        return "compiled, whole columns"
    return f"{conjunct.call.path.name}, {'row by row' if conjunct.call.by_row else 'whole columns'}"


def order_in_words(order: Sequence[Ranked]) -> Iterator[str]:
    """Yield the reason for the order of the next batch: one sentence, then one per condition that moved."""
    if len(order) < 2:
        yield "one condition: there is nothing to order"
        return
    if [each.written for each in order] == sorted(each.written for each in order):
        yield "as written: no other order takes more rows out a second earlier"
        return
    yield "most rows taken out a second first, by (1 - S) n as the last batch measured it; equal ones as written"
    for place, each in enumerate(order):
        if each.written > place:
            passed = [other for other in order[place + 1 :] if other.written < each.written]
            before = " and ".join(condition_in_words(other.text) for other in passed)
            yield (
                f"{condition_in_words(each.text)} goes before {before}: it takes out {each.filtered_per_s:,.0f} rows a "
                f"second, {_most(passed)}"
            )


def _most(passed: Sequence[Ranked]) -> str:
    told = " and ".join(f"{other.filtered_per_s:,.0f}" for other in passed)
    return f"{'that' if len(passed) == 1 else 'those'} {told}"


def kernel_in_words(name: str, handled_per_s: float | None, arrived_per_s: float) -> str:
    """Return when the kernel behind the conditions on a query's sides runs, with n and V of the last batch."""
    turn = (
        f"{name} runs behind all scans of its round; of several such the one of the highest n - V runs first"
    )
    if handled_per_s is None:
        return f"{turn}, one without rows so far before all others"
    return f"{turn}, here {handled_per_s:,.0f} - {arrived_per_s:,.0f} rows a second"
