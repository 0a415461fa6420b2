"""What a statement or question may take, where nothing else is said."""

from __future__ import annotations

# Seconds, and megabytes of DuckDB's memory.
TIMEOUT_S = 30.0
MEMORY_MB = 512
