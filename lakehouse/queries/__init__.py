"""Registered queries: one folder per kind, the SQL that all kinds share, and the runtime that runs them."""
