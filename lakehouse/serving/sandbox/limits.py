"""Default limits of a statement or question."""

# Seconds, and megabytes of DuckDB's memory.
TIMEOUT_S = 30.0
MEMORY_MB = 512
