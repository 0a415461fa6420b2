"""What the user writes: ``tidemark.toml``, its streams and columns, checked whole before anything runs."""

from __future__ import annotations
