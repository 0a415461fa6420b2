"""Fixtures of the folder."""

from __future__ import annotations

from tests.support.readings_lake import lake as lake
