"""What every kind of query shares while it runs: batches, repairs, sources of rows, state, publishing, checks."""

from __future__ import annotations
