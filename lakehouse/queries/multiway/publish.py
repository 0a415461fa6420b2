"""Published tables of a join of three streams or more: its results, and how complete they are."""

from lakehouse.queries.runtime.recall.publish import snapshot_of

__all__ = ["snapshot_of"]
