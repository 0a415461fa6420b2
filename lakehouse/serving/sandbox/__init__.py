"""Other people's SQL on a published version, read-only and under hard limits."""

from __future__ import annotations
