"""Gains of the order and of the turns, the cost of switching, and loads where no policy can be lowest in both.

*FIFO, our order* and *Chain, our order* take the order from DeadlineRounds and the turns from the baseline. They are
bounds: if switching takes no time, no policy has a result out earlier than FIFO does in the same order (results leave
in order, so all work on earlier tuples must be done, and FIFO does no other); and none has fewer tuples waiting than
Chain, but for one an operator (Babcock et al.). So where there is nothing to reorder, *lowest in both* is out of reach:
what sheds first makes results wait, what puts results out first lets tuples wait. DeadlineRounds sheds while all
deadlines hold; ShortRounds is the same policy without shedding. One of the two is at each end of what is possible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lakehouse.algorithms.scheduling.chain import envelope_slopes
from lakehouse.algorithms.scheduling.contract import Discipline, Plan, Statistics
from lakehouse.algorithms.scheduling.network import Network
from lakehouse.algorithms.scheduling.policy import Policy, first_plan
from tests.benchmarks import page
from tests.benchmarks.scheduling.figures import SEED, told
from tests.benchmarks.scheduling.run import HEADS, METRICS, POLICIES, beaten, runs, table_rows
from tests.benchmarks.scheduling.scenarios import LENGTH_S, NOTHING_TO_REORDER, SCENARIOS
from tests.benchmarks.scheduling.scenarios import __doc__ as SETTING
from tests.oracles.scheduling.deadline_rounds import ORDER_MARGIN, DeadlineRounds, by_margin

SWITCHES_US = (0, 5, 20, 60)


class FifoInOurOrder:
    """The oldest tuple first."""

    name = "FIFO, our order"
    reorders = True

    def plan(self, network: Network, measured: Statistics, before: Plan) -> Plan:
        """Return our order with FIFO's turns."""
        return replace(first_plan(network), order=by_margin(network, measured, before.order, ORDER_MARGIN))


class ChainInOurOrder:
    """The steepest piece of the charts first."""

    name = "Chain, our order"
    reorders = True

    def plan(self, network: Network, measured: Statistics, before: Plan) -> Plan:
        """Return our order with Chain's turns."""
        order = by_margin(network, measured, before.order, ORDER_MARGIN)
        slopes = envelope_slopes(network, measured, order)
        return replace(first_plan(network), order=order, discipline=Discipline.HIGHEST, priority=slopes)


def _short_rounds() -> Policy:
    return DeadlineRounds(sheds=False)


ALL: dict[str, Callable[[], Policy]] = {
    **POLICIES,
    _short_rounds().name: _short_rounds,
    FifoInOurOrder.name: FifoInOurOrder,
    ChainInOurOrder.name: ChainInOurOrder,
}


def figures(quick: bool) -> dict[str, Any]:
    """Return each metric by scenario and policy where nothing can be reordered; in full also by cost of a switch."""
    length_s = 8.0 if quick else LENGTH_S
    found: dict[str, Any] = {f"unordered_{metric}": {} for metric in METRICS}
    parts = [__doc__ or "", SETTING or ""]
    for make in NOTHING_TO_REORDER if quick else (*NOTHING_TO_REORDER, *SCENARIOS):
        scenario = make(SEED, length_s)
        each = runs(scenario, ALL)
        if make in NOTHING_TO_REORDER:
            for metric in METRICS:
                figures_of = {name: one.figures[metric] for name, one in each.items()}
                found[f"unordered_{metric}"][scenario.name] = figures_of
        parts += [f"## {scenario.name}", told(scenario), page.table(HEADS, table_rows(each))]
    if not quick:
        parts += ["## What a switch costs", *_switching()]
        page.write("scheduling", "order_and_turns", "Order and turns", *parts)
    return found


def _switching() -> list[str]:
    """Return, by cost of a switch, what each policy makes of the first scenario of both kinds."""
    heads = ["us a switch", "scenario", *HEADS[:6]]
    rows: list[list[Any]] = []
    lost: list[list[Any]] = []
    for switch_us in SWITCHES_US:
        for make in (*SCENARIOS, *NOTHING_TO_REORDER):
            scenario = make(SEED, LENGTH_S).switching(switch_us)
            each = runs(scenario)
            rows += [[switch_us, scenario.name, *row[:6]] for row in table_rows(each)]
            lost += [
                [switch_us, scenario.name, name, metric, *worse]
                for name in ("MultiFactor", "DeadlineRounds")
                for metric, worse in beaten(each, name).items()
            ]
    told_lost = "Where a baseline is lower, all of them:"
    lost_heads = ["us a switch", "scenario", "policy", "metric", "lower is", "at", "ours"]
    return [page.table(heads, rows), told_lost, page.table(lost_heads, lost)]
