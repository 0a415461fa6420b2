"""Tests of publishing and answering: files, processes and DuckDB, no JVM."""

from __future__ import annotations
