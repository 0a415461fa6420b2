"""Fixtures of the folder."""

from __future__ import annotations

from tests.quality.conftest import checked_lake as checked_lake
from tests.quality.conftest import checked_settings as checked_settings
from tests.support.readings_lake import lake as lake
