"""Operators as a query's batches measured them: conditions that are evaluated singly, and the kernel.

For a selection these are its metrics. A join or an aggregate that calls predicates has them in the table
``operators``, by side. Cost: a row per batch and operator.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from lakehouse.queries.kind import BATCH, OPERATOR, Conjunct, Query, Side, scanned
from lakehouse.queries.language.words import condition_in_words
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import read_columns

Facts = dict[str, Any]
_TABLE = ("batch", "side", "operator", "committed_at", "rows", "time_us", *OPERATOR, *BATCH)
_SHOWN = ("selectivity", "handled_per_s", "priority", "taken", "passed")
_COUNTED = ("taken", "passed", "busy_us", "selectivity", "handled_per_s")


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


@dataclass(frozen=True)
class Scans:
    """The measurements of a join's or aggregate's finished batches; ``rows``: by batch and side, the kernel's last."""

    sides: Sequence[Side]
    rows: Sequence[Facts]

    def operators(self) -> list[Facts]:
        """Return the last batch's figures: for each side the conditions in their current order, then the kernel."""
        last = self._last
        of_sides = [
            {"side": side.alias, **operator_facts(row)}
            for number, side in self._scanned()
            for row in ordered(_of_side(last, number))
        ]
        return [*of_sides, *map(_kernel_facts, _of_side(last, None))]

    def why(self) -> Iterator[str]:
        """Yield why each side's conditions have their order, and when the kernel runs; nothing before a batch."""
        last = self._last
        for number, side in self._scanned() if last else ():
            for sentence in order_in_words(ranked(_of_side(last, number))):
                yield f"{side.alias}: {sentence}"
        for row in _of_side(last, None):
            yield kernel_in_words(
                row["name"],
                row["handled_per_s"],
                sum(row["arrived_per_s"] for row in last if row["operator"] < 0),
            )

    def batches(self) -> Iterator[Facts]:
        """Yield for each finished batch the scan of each side, and the figures of its kernel."""
        for number, of_batch in groupby(self.rows, key=lambda row: row["batch"]):
            rows = list(of_batch)
            sides = ((side.alias, _of_side(rows, place)) for place, side in self._scanned())
            kernel = next((_counted(row) for row in _of_side(rows, None)), None)
            told = [{"side": alias, **scan_facts(own)} for alias, own in sides if own]
            yield {"batch": number, "sides": told, "kernel": kernel}

    @property
    def _last(self) -> list[Facts]:
        return [row for row in self.rows if row["batch"] == self.rows[-1]["batch"]]

    def _scanned(self) -> list[tuple[int, Side]]:
        return [(number, self.sides[number]) for number in scanned(self.sides)]


def read_scans(layout: Home, query: Query, finished: int) -> Scans:
    """Return the measurements of batches up to the last finished one; a later one is running or died."""
    rows = [dict(zip(_TABLE, row, strict=True)) for row in read_columns(layout.operators(query.name), _TABLE)]
    sides = len(query.sides)

    def place(row: Facts) -> tuple[int, int, int]:
        return row["batch"], sides if row["side"] is None else row["side"], row["operator"]

    return Scans(query.sides, sorted((row for row in rows if row["batch"] <= finished), key=place))


def conditions_of(conjuncts: Sequence[Conjunct]) -> list[Facts]:
    """Return conditions in the written order, and how each is evaluated."""
    return [{"condition": condition_in_words(each.text), "asked": kind_in_words(each)} for each in conjuncts]


def ordered(rows: Sequence[Facts]) -> list[Facts]:
    """Return the conditions of a batch in the order with which the next one begins."""
    return sorted((row for row in rows if row["operator"] >= 0), key=lambda row: row["position"])


def ranked(rows: Sequence[Facts]) -> list[Ranked]:
    """Return the conditions of a batch in that order, with their measurements."""
    return [_ranked(row) for row in ordered(rows)]


def operator_facts(row: Facts) -> Facts:
    """Return the figures of a condition as a batch measured it."""
    of_row = _ranked(row)
    return {
        **{name: row[name] for name in _SHOWN},
        "operator": condition_in_words(row["name"]),
        "written": row["operator"] + 1,
        "now": row["position"] + 1,
        "us_a_row": of_row.us_a_row,
        "filtered_per_s": of_row.filtered_per_s,
        **{name: row[name] for name in ("slice_us", "waited")},
    }


def scan_facts(rows: Sequence[Facts]) -> Facts:
    """Return the measurements of one scan: rows, delays, V and tau, and the figures of each condition."""
    whole = next(row for row in rows if row["operator"] < 0)
    return {
        **{name: whole[name] for name in ("committed_at", "rows", "time_us", *BATCH)},
        "order": [row["operator"] + 1 for row in ordered(rows)],
        "operators": [
            {"operator": condition_in_words(row["name"]), **_counted(row)}
            for row in rows
            if row["operator"] >= 0
        ],
    }


def _kernel_facts(row: Facts) -> Facts:
    """Return the same of a kernel; it filters nothing, has no time slice, and no rows wait for it."""
    handled = row["handled_per_s"]
    nothing = dict.fromkeys(("side", "written", "now", "filtered_per_s", "slice_us", "waited"))
    us_a_row = 1e6 / handled if handled else None
    return {**nothing, **{name: row[name] for name in _SHOWN}, "operator": row["name"], "us_a_row": us_a_row}


def _counted(row: Facts) -> Facts:
    return {name: row[name] for name in _COUNTED}


def _of_side(rows: Sequence[Facts], side: int | None) -> list[Facts]:
    return [row for row in rows if row["side"] == side]


def _ranked(row: Facts) -> Ranked:
    return Ranked(row["name"], row["handled_per_s"], row["selectivity"], row["operator"])


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
            rates = " and ".join(f"{other.filtered_per_s:,.0f}" for other in passed)
            yield (
                f"{condition_in_words(each.text)} goes before {before}: it takes out {each.filtered_per_s:,.0f} rows a "
                f"second, {'that' if len(passed) == 1 else 'those'} {rates}"
            )


def kernel_in_words(name: str, handled_per_s: float | None, arrived_per_s: float) -> str:
    """Return when the kernel behind the conditions on a query's sides runs, with n and V of the last batch."""
    turn = (
        f"{name} runs behind all scans of its round; of several such the one of the highest n - V runs first"
    )
    if handled_per_s is None:
        return f"{turn}, one without rows so far before all others"
    return f"{turn}, here {handled_per_s:,.0f} - {arrived_per_s:,.0f} rows a second"
