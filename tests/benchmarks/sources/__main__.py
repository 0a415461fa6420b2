"""Sources other than files, how fast they are read beside the plain way, and how fresh answers are; one JSON object.

    python -m tests.benchmarks.sources [--quick] [--json] [PART ...]

``kafka`` starts a broker of its own on this machine, which shares its cores with Spark. ``freshness`` serves rows
as they come, an hour of stream time at each of two rates, replayed faster: 45 minutes. ``manifests``: what finding the
next batch costs behind thousands. ``soak``: whether memory and files stay flat, 40 minutes.
"""

from __future__ import annotations

from tests.benchmarks.parts import run_parts

# Each has figures(quick) -> dict.
PARTS = tuple(f"tests.benchmarks.sources.{name}" for name in ("kafka", "manifests", "freshness", "soak"))


if __name__ == "__main__":
    run_parts(__doc__, PARTS, "small sizes, a few minutes")
