"""Publishing: a version is built, compared with the rollups' totals, and shown."""

from __future__ import annotations
