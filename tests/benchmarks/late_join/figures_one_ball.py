"""The figures of ``figures.py`` on the first recording with one ball: a silence of its sensor holds back every pair."""

from __future__ import annotations

from typing import Any

from tests.benchmarks.late_join.figures import figures_of


def figures(quick: bool) -> dict[str, Any]:
    """Return the figures of D1 with one ball, each name with ``one_ball_`` before it."""
    found = figures_of("D1", "figures_one_ball", quick, balls=1)
    return {f"one_ball_{name}": value for name, value in found.items()}
