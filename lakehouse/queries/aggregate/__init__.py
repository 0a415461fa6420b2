"""Aggregates of a window join at every tick, kept current without storing the results of the join."""
