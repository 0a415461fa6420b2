"""Checks of a stream's tables: small frames of deviations, which the rules of quality judge."""
