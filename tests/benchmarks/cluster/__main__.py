"""Gain of more machines, cost of many keys, and a model of what lies beyond.

    python -m tests.benchmarks.cluster [--quick] [--json] [PART ...]

``model``: costs of a row, a node, a commit and a listed file, measured here, and what they come to for a million
devices and ten billion rows a day. ``keys``: a million keys through ingest, rollup, publish and a question.
``requests``: what a batch asks of an object store, and what a day of that costs.
``workers``: the same rows on one, two and four workers of one core, each a process of this machine: on two cores the
shape counts, not the speed. All of them take minutes, so ``--quick`` without a part runs none.
"""

from __future__ import annotations

from tests.benchmarks.parts import run_parts

if __name__ == "__main__":
    run_parts(__doc__, __package__, (), only_in_full=("model", "keys", "workers", "requests"))
