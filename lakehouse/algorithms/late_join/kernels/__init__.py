"""Compiled loops of interval joins."""
