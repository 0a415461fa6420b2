"""Identities of rows: what makes two rows the same, found within a batch, in raw, and in what outlives raw."""
