"""Answers over HTTP: an API, Prometheus' query API, the published file, events and a page, from one process.

No Spark, no JVM and no Airflow: everything is read from published versions and from a few tables' files. What is
answered is what ``lakehouse.serving`` answers; here questions are parsed, limited, authorised and written out.
"""

from __future__ import annotations
