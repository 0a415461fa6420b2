"""Rollup of a stream: raw rows -> partial nodes of every level and grouping, folded later."""
