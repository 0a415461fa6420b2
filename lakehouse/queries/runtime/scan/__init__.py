"""Shared scans of streams inside the stream job: the adapter around ``lakehouse.algorithms.scheduling``."""
