"""Recall of queries that state one: what repairs say of the slack needed, periods published, periods judged."""
