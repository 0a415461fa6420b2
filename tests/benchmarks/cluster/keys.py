"""A million keys, two rows each and then one more, through everything on two cores: seconds, memory, nodes, bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.cluster.steps import lead

KEYS, QUICK_KEYS, ROWS_PER_KEY = 1_000_000, 10_000, 2


def figures(quick: bool) -> dict[str, Any]:
    """Return what each step took, and what is kept."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        found = lead(Path(folder), QUICK_KEYS if quick else KEYS, ROWS_PER_KEY)
    # The last key's number, once in each row.
    assert found.answer == (ROWS_PER_KEY + 1) * (found.keys - 1), found.answer
    told: dict[str, Any] = {"keys": found.keys, "rows": found.rows, "nodes": found.nodes}
    for name, cost in found.steps.items():
        told |= {f"{name}_s": round(cost.seconds, 1), f"{name}_cpu_s": round(cost.cpu_s, 1)}
        told |= {f"{name}_mb": round(cost.process_mb), f"{name}_jvm_mb": round(cost.jvm_mb)}
    return told | {
        "raw_bytes_per_row": round(found.raw_bytes / found.rows, 1),
        "rollup_bytes_per_node": round(found.node_bytes / found.nodes, 1),
        "published_bytes_per_node": round(found.published_bytes / found.nodes, 1),
    }
