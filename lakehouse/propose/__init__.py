"""Proposal of a declaration for files that nobody has declared: looked at, typed, written as TOML, and tried."""
