"""Yardsticks of ingest: every row compared with every accepted one; quantiles of lateness."""

from __future__ import annotations
