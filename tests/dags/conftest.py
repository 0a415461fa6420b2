"""Airflow reads its settings when it is first imported: give it a home of its own before any test does."""

from __future__ import annotations

import os
import tempfile

os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="tidemark-airflow-"))
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
os.environ.setdefault("AIRFLOW__USAGE_DATA_COLLECTION__ENABLED", "False")
