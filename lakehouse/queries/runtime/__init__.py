"""Runtime of every kind of query: batches, repairs, sources of rows, state, publishing, checks.

``source.py`` says which rows a batch reads, ``tasks`` runs its buckets in the engine, ``logged.py`` is
what a repair adds to that. ``tasks/arrow_sql.py`` evaluates conditions and columns on Arrow batches.
"""
