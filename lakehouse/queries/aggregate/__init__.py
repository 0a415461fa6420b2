"""Aggregates of a window join at every tick, kept current without storing what is joined."""

from __future__ import annotations
