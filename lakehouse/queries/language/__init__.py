"""The SQL front end of all kinds of query: tokens, clauses, names, conditions, and the faults of a text."""
