"""Compiled loops of join-aggregates."""
