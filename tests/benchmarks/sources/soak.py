"""Steadiness of a service: memory, open files and files on disk, batch after batch.

Few rows a second, levels that are full within minutes and a small heap, so that nothing has a reason to grow; what
grows all the same would end a service one night. Files on disk are flat after the history, which is ten minutes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.sources.freshness import CONFIG, Replay, served

RATE, QUICK_S, WHOLE_S = 200, 60, 2400
LEVELS = 'levels = ["1s for 1h", "1m for 2d", "1h for 1y", "1d forever"]'
SOON_FULL = 'levels = ["10s for 1m", "1m for 1h", "1h forever"]'
SMALL = CONFIG.replace(LEVELS, SOON_FULL) + '[spark]\ndriver_memory = "1g"\n'
SHOWN = (
    "rss_mb_by_part",
    "rss_java_mb_by_part",
    "open_files_by_part",
    "files_on_disk_by_part",
    "batches",
    "versions",
)


def figures(quick: bool) -> dict[str, Any]:
    """Return medians of six equal parts of the time, and how many batches and published versions there were."""
    assert SOON_FULL in SMALL, "the configuration of the other benchmark has other levels"
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        found = served(Path(name), SMALL, Replay(RATE, 1, QUICK_S if quick else WHOLE_S))
    return {f"soak_{key}": found[key] for key in SHOWN}
