"""Cost of choosing how to join beside joining all batches in one way, by the cost model's own estimates."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.algorithms.multiway_join.loads import is_dear, ratios, spent_on


def figures(quick: bool) -> dict[str, Any]:
    """Return the worst of many scenarios beside either way alone, and the share of batches above 1.3 times the best."""
    runs = [spent_on(seed) for seed in range(50 if quick else 1000)]
    to_plain, to_pruned = np.array([ratios(spent) for spent in runs]).max(axis=0).round(2).tolist()
    dear = np.mean([is_dear(each) for spent in runs for each in spent])
    return {
        "choices_worst_ratio_to_plain": to_plain,
        "choices_worst_ratio_to_pruned": to_pruned,
        "choices_share_above_1_3": round(float(dear), 3),
    }
