"""Measurements of a scan: counts of tasks -> n, S and V, and the plan that the next batch begins with.

Statistics go by reader and condition, so they serve whichever readers the next scan has; a condition that is new to a
reader takes those of another one that has it too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lakehouse.algorithms.scheduling.contract import LEFT, Statistics
from lakehouse.algorithms.scheduling.executor import pool_of
from lakehouse.algorithms.scheduling.interval import Interval
from lakehouse.algorithms.scheduling.measuring import Counts, nothing_measured
from lakehouse.algorithms.scheduling.network import Network
from lakehouse.algorithms.scheduling.policies import DEFAULT, POLICIES
from lakehouse.algorithms.scheduling.policy import first_plan
from lakehouse.queries.runtime.scan.readers import Reader, written
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import read_columns

Facts = dict[str, Any]
_OPERATOR = ("handled_per_s", "selectivity")
_COUNTED = ("taken", "passed", "busy_us", "arrived", "switched")
_WHOLE = ("arrived_per_s", "switch_us", "tau_us", "time_us")


@dataclass(frozen=True)
class Before:
    """Measurements of a reader's last finished batch; none before the first. ``operators``: n and S by condition."""

    operators: Mapping[str, tuple[float, float]]
    whole: Mapping[str, Any]


def read_before(layout: Home, reader: Reader, batch: int) -> Before:
    """Return what the batch of the reader's query before this one showed."""
    is_side = reader.side is not None
    names = ("operator", "name", *_OPERATOR, *_WHOLE, *(("side",) if is_side else ()))
    table = layout.operators(reader.query) if is_side else layout.queries(reader.query)
    rows = read_columns(table, names, ("batch", batch - 1, batch - 1))
    found = [
        row for values in rows if (row := dict(zip(names, values, strict=True))).get("side") == reader.side
    ]
    operators = {row["name"]: tuple(row[name] for name in _OPERATOR) for row in found if row["operator"] >= 0}
    whole = next((row for row in found if row["operator"] < 0), {})
    return Before(operators, {name: whole.get(name) for name in _WHOLE})


def known_of(network: Network, before: Mapping[str, Before]) -> Statistics | None:
    """Return the statistics that a scan begins with; None where no reader of it has run yet."""
    told = [each.whole for each in before.values() if each.operators]
    if not told:
        return None
    nothing = nothing_measured(network)
    handled, selectivity = nothing.handled_per_s.copy(), nothing.selectivity.copy()
    anywhere = {name: both for each in before.values() for name, both in each.operators.items()}
    for place, operator in enumerate(network.operators):
        query = network.queries[network.wiring.query[place]].name
        found = before[query].operators.get(operator.name) or anywhere.get(operator.name)
        if found:
            handled[place, LEFT], selectivity[place, LEFT] = found
    arrived, switch_us = (
        float(np.mean([each[name] for each in told])) for name in ("arrived_per_s", "switch_us")
    )
    return Statistics(np.array([arrived]), handled, selectivity, switch_us)


def interval_of(before: Mapping[str, Before]) -> Interval:
    """Return the interval that a scan begins with: the shortest that its readers had reached."""
    reached = [each.whole["tau_us"] for each in before.values() if each.operators]
    return Interval(length_us=min(reached)) if reached else Interval()


@dataclass(frozen=True)
class Measured:
    """A scan as it was measured: per reader the rows that are told of it, by place in ``readers``.

    ``arrival_us``: the time in which the rows arrived, by the stream's ledger, for V; None counts the scan's own time.
    """

    readers: Sequence[Reader]
    before: Mapping[str, Before]
    tasks: Sequence[Facts]
    policy: str = DEFAULT
    arrival_us: int | None = None

    def figures(self) -> list[list[Facts]]:
        """Return for each reader what became of the whole batch, then each operator in the written order."""
        network = Network.of(written(self.readers))
        counts, known = self._counts(network), known_of(network, self.before) or nothing_measured(network)
        measured = counts.measured(self.arrival_us or max(self._sum("elapsed_us"), 1), known)
        operators = self._operators(network, counts, measured)
        shared = {"arrived_per_s": float(measured.arrived_per_s[0]), "switch_us": float(measured.switch_us)}
        return [
            [
                {"operator": -1, **shared, **self._whole(number, reader.name)},
                *(row for row, of in zip(operators, network.wiring.query, strict=True) if of == number),
            ]
            for number, reader in enumerate(self.readers)
        ]

    def _operators(self, network: Network, counts: Counts, measured: Statistics) -> list[Facts]:
        """Return each operator with its turn, and its place in the order, as planned from what was measured."""
        plan = POLICIES[self.policy]().plan(network, measured, first_plan(network))
        position = np.argsort(plan.order)
        _, first = np.unique(network.wiring.query, return_index=True)
        waited = np.max([task["waited"] for task in self.tasks] or [np.zeros(network.size)], axis=0)
        columns = {
            "operator": np.arange(network.size) - first[network.wiring.query],
            "position": position - first[network.wiring.query],
            "taken": counts.taken[:, LEFT],
            "passed": counts.passed[:, LEFT],
            "busy_us": np.rint(counts.busy_us[:, LEFT]).astype(np.int64),
            "handled_per_s": measured.handled_per_s[:, LEFT],
            "selectivity": measured.selectivity[:, LEFT],
            "priority": plan.priority[position],
            "slice_us": plan.slices_us[position],
            "waited": waited.astype(np.int64),
        }
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [
            {"name": operator.name, **dict(zip(columns, row, strict=True))}
            for operator, row in zip(network.operators, rows, strict=True)
        ]

    def _whole(self, number: int, reader: str) -> Facts:
        states = [task["readers"][number] for task in self.tasks]
        pieces = sum(state["results"] for state in states)
        times = [task["newest_us"] for task in self.tasks] + [self.before[reader].whole["time_us"]]
        return {
            "rows": sum(task["arrived"][0] for task in self.tasks),
            "selected": sum(state["rows"] for state in states),
            "pieces": pieces,
            "misses": sum(state["misses"] for state in states),
            "delay_us": round(sum(state["delay_us"] for state in states) / pieces) if pieces else 0,
            "worst_delay_us": max((state["worst_delay_us"] for state in states), default=0),
            "tau_us": min(
                (task["tau_us"] for task in self.tasks), default=interval_of(self.before).length_us
            ),
            "changes": self._sum("changes"),
            "tasks": len(self.tasks),
            "together": len(self.readers),
            "queue_bytes": max((task["queue_bytes"] for task in self.tasks), default=0),
            "time_us": max((time for time in times if time is not None), default=None),
        }

    def _counts(self, network: Network) -> Counts:
        pool = pool_of(network.operators)
        total = Counts.zero(network, pool)
        for task in self.tasks:
            counted = {name: np.array(task[name]) for name in _COUNTED}
            total.add(Counts(**counted, pool=pool))
        return total

    def _sum(self, name: str) -> int:
        return sum(task[name] for task in self.tasks)
