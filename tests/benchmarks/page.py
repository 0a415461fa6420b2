"""Pages and pictures of a full run, below tests/benchmarks/results/<problem>, each with the command that makes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a markdown table; numbers are shortened."""
    lines = [heads, ["---"] * len(heads), *[[_cell(value) for value in row] for row in rows]]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def write(problem: str, name: str, title: str, *parts: str, by: str = "") -> None:
    """Write one page of a problem; ``by``: the module that makes it, if it is not the problem's benchmark."""
    (RESULTS / problem).mkdir(parents=True, exist_ok=True)
    made = by or f"tests.benchmarks.{problem}"
    head = f"# {title}\n\nMade by `python -m {made}`; do not edit by hand."
    (RESULTS / problem / f"{name}.md").write_text("\n\n".join([head, *parts]) + "\n")


def picture(name: str) -> tuple[Any, Any]:
    """Return an empty figure and its axes; ``save`` writes it."""
    import matplotlib

    matplotlib.use("svg")
    # Without these two every run would write other bytes for the same picture.
    matplotlib.rcParams["svg.hashsalt"] = name
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    return figure, axes


def save(figure: Any, problem: str, name: str) -> str:
    """Write the picture and return the markdown that shows it."""
    (RESULTS / problem).mkdir(parents=True, exist_ok=True)
    figure.savefig(RESULTS / problem / f"{name}.svg", metadata={"Date": None})
    return f"![{name}]({name}.svg)"


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
