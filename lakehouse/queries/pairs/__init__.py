"""Pairs: window joins of two streams with a stated recall now, repaired to all pairs later."""
