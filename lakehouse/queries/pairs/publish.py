"""Published tables of a join of pairs: its pairs, and how complete they are by step and period."""

from lakehouse.queries.runtime.recall.publish import snapshot_of

__all__ = ["snapshot_of"]
