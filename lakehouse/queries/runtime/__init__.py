"""What every kind of query shares while it runs: batches, repairs, sources of rows, state, publishing, checks.

``source.py`` reads the rows of a batch with Spark or in this process. ``arrow_sql.py`` evaluates Spark's SQL on rows
in this process. ``bucket_answers.py`` runs buckets in either.
"""

from __future__ import annotations
