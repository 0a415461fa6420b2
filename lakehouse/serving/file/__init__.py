"""The published file: built, checked against the rollups' totals, and shown as an immutable version."""

from __future__ import annotations
