"""Charts in the terminal and on pages."""

from __future__ import annotations
