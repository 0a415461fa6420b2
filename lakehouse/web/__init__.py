"""Answers over HTTP: an API, Prometheus' query API, the published file, events and pages, from one process.

No Spark, no JVM and no Airflow: everything is read from published versions and from a few tables' files. The
answers come from ``lakehouse.serving``; this package parses, limits and authorises questions, and writes answers.
"""
