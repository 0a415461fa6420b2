"""What every kind of query shares while it runs: batches, repairs, sources of rows, state, publishing, checks.

``source.py`` has the rows of a batch, as Spark or this process reads them; ``arrow_sql.py`` says what Spark's SQL makes
of rows that this process has; ``bucket_answers.py`` runs buckets in either.
"""

from __future__ import annotations
