"""Limits of what a process takes on by itself, as batches meet them that are large."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lakehouse.queries.runtime import bucket_answers


@contextmanager
def limited(limit: str) -> Iterator[None]:
    """Leave all batches to Spark by this limit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_answers, limit, 0)
        yield
