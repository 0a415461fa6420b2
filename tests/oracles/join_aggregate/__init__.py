"""The yardstick of incremental aggregates: Theorem 1 on multisets. Results are held against ``Materialised``."""

from __future__ import annotations
