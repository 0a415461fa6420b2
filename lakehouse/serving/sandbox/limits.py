"""Default limits of a statement or question."""

from __future__ import annotations

# Seconds, and megabytes of DuckDB's memory.
TIMEOUT_S = 30.0
MEMORY_MB = 512
