"""The figures of ``figures.py`` on the stream generated after the paper's second recording, D2."""

from __future__ import annotations

from typing import Any

from tests.benchmarks.late_join.figures import figures_of


def figures(quick: bool) -> dict[str, Any]:
    """Return the figures of D2, each name with ``d2_`` before it."""
    return {f"d2_{name}": value for name, value in figures_of("D2", "figures_d2", quick).items()}
