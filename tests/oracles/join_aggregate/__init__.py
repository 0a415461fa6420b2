"""Yardsticks of join-aggregates: all results kept, Theorem 1 on multisets, ticks that wait row by row."""

from __future__ import annotations
