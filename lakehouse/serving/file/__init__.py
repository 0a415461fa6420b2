"""The published file: it is built, compared with the rollups' totals, and shown as an immutable version."""

from __future__ import annotations
