"""Attacks on the server: each makes requests from a seed, and says of each answer what is wrong with it."""

from __future__ import annotations
