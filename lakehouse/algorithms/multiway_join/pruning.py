"""Choice between joining a batch as it is and counting its keys first, so that rows without partners stay at home.

A plain join brings all rows together, those of the windows too. Pruning keeps the windows sorted and counts keys; then
it sends only rows that can match, and the windows stay. Which costs less is told by rows a side, new ones and those of
the windows, by the share of new rows that can match, and by what moving a row costs. Costs are seconds; a row that is
moved on a way of cost 1 costs what it takes to shuffle it here.

Windows that are not kept yet have to be filled before the first batch is pruned. That pays once batches that were
joined as they are have lost as much as filling costs, so whatever comes, all batches together cost at most twice what
they would have cost either way, by these estimates.

Cost: O(sides).
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Prices:
    """Seconds, as measured on two cores; ``begin`` once a batch, all others a row.

    ``join``: a row of a plain join, read and sorted. ``move``: a row that is moved on a way of cost 1. ``keep``: a row
    that is sorted into its window. ``count``: a row whose key is counted. ``send``: a row that is sent to a window.
    ``scan``: a row of a window that a block is compared with.
    """

    begin: float = 2.0
    join: float = 1.3e-6
    move: float = 0.3e-6
    keep: float = 9e-6
    count: float = 3e-6
    send: float = 1e-6
    scan: float = 0.15e-6


@dataclass(frozen=True)
class Load:
    """A batch as it is known before it is joined; a tuple has a number per side.

    ``new``: rows of the batch; ``held``: rows of its windows. ``matching``: which share of the new rows can match, as
    the last batch that counted has found it; None where none has. ``way``: what moving a row costs, on average.
    ``is_filled``: the windows are kept and counted. ``is_kept``: they are kept whichever way the batch is joined.
    ``lost``: what joining batches as they are has lost since one was pruned.
    """

    new: Sequence[float]
    held: Sequence[float]
    matching: Sequence[float | None]
    way: Sequence[float]
    is_filled: bool = False
    is_kept: bool = False
    lost: float = 0.0


@dataclass(frozen=True)
class Choice:
    """Way that costs less, both costs, the cost of filling the windows, and the loss by now."""

    is_pruned: bool
    plain: float
    pruned: float
    fill: float
    lost: float

    @property
    def why(self) -> str:
        """Reason of the choice, in words."""
        costs = f"{self.pruned:.3g} s pruned, {self.plain:.3g} s plain"
        if self.is_pruned:
            return f"{costs}; filling windows {self.fill:.3g} s" if self.fill else costs
        if self.pruned < self.plain:
            return f"{costs}; filling windows {self.fill:.3g} s, lost so far {self.lost:.3g} s"
        return costs


def choose(load: Load, prices: Prices | None = None) -> Choice:
    """Return which way a batch is joined.

    Guarantee: where windows are filled, or filling is free, the cost is the least of both estimates. Elsewhere a batch
    is joined plainly until ``lost`` reaches ``fill``.
    """
    prices = prices or Prices()
    plain, pruned, fill = plain_cost(load, prices), pruned_cost(load, prices), fill_cost(load, prices)
    lost = max(load.lost + plain - pruned, 0.0)
    is_pruned = pruned < plain and (lost >= fill)
    return Choice(is_pruned, plain, pruned, fill, 0.0 if is_pruned else lost)


def plain_cost(load: Load, prices: Prices) -> float:
    """Return what joining all rows of a batch and its windows costs, in seconds."""
    kept = prices.keep * sum(load.new) if load.is_kept else 0.0
    return kept + sum(
        (new + held) * (prices.join + prices.move * way)
        for new, held, way in zip(load.new, load.held, load.way, strict=True)
    )


def pruned_cost(load: Load, prices: Prices) -> float:
    """Return what keeping, counting and sending costs where the windows are filled, in seconds.

    Without a share that was found, every row counts as one that can match.
    """
    cost, everywhere = prices.begin + sum(load.new) * (prices.keep + prices.count), sum(load.held)
    for new, held, matching, way in zip(load.new, load.held, load.matching, load.way, strict=True):
        leaving = new * (1.0 if matching is None else matching)
        cost += leaving * (prices.send + prices.move * way) * (len(load.new) - 1)
        cost += prices.scan * (everywhere - held) if leaving else 0.0
    return cost


def fill_cost(load: Load, prices: Prices) -> float:
    """Return what filling and counting the windows costs before the first batch is pruned, in seconds."""
    if load.is_filled:
        return 0.0
    return sum(load.held) * (prices.count + (0.0 if load.is_kept else prices.keep))
