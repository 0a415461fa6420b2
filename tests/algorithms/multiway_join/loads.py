"""Batches of three streams that change, and what choosing how they are joined comes to, by the method's estimates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lakehouse.algorithms.multiway_join.pruning import Choice, Load, choose

BATCHES = 60


class Spent(NamedTuple):
    """What a batch cost as it was chosen, in seconds, and the choice."""

    cost: float
    choice: Choice


def scenario(seed: int) -> Iterator[Load]:
    """Yield loads: bursts, windows that fill and empty, shares and costs of ways that jump."""
    dice = np.random.default_rng(seed)
    held, size, keeps, share, way = np.zeros(3), 1e4, 0.9, 0.1, 1.0
    for _ in range(BATCHES):
        if dice.random() < 0.1:
            size, keeps = 10 ** dice.uniform(2, 6.3), dice.choice([0.0, 0.5, 0.9, 0.99])
            share, way = dice.choice([0.0, 0.01, 0.3, 1.0]), dice.choice([0.0, 1.0, 5.0, 25.0])
        new = size * dice.uniform(0.5, 1.5, 3)
        yield Load(tuple(new), tuple(held), (share,) * 3, (way,) * 3)
        held = (held + new) * keeps


def spent_on(seed: int) -> list[Spent]:
    """Return what each batch of a scenario costs, each knowing what the one before left."""
    found: list[Spent] = []
    is_filled, lost = False, 0.0
    for load in scenario(seed):
        choice = choose(replace(load, is_filled=is_filled, lost=lost))
        found.append(Spent(choice.pruned + choice.fill if choice.is_pruned else choice.plain, choice))
        is_filled, lost = choice.is_pruned, choice.lost
    return found


def ratios(spent: list[Spent]) -> tuple[float, float]:
    """Return the whole cost as a share of joining all batches plainly, and of pruning all."""
    whole = sum(each.cost for each in spent)
    plain = sum(each.choice.plain for each in spent)
    return whole / plain, whole / sum(each.choice.pruned for each in spent)


def is_dear(spent: Spent) -> bool:
    """Return whether a batch cost more than 1.3 times the cheaper way."""
    return spent.cost > 1.3 * min(spent.choice.plain, spent.choice.pruned)
