"""Fixtures of the folder."""

from __future__ import annotations

from tests.cli.conftest import called as called
from tests.cli.conftest import published_home as published_home
from tests.cli.conftest import tidemark as tidemark
