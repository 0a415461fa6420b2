"""Imports, compiled loops and bindings that jobs make on first use, made once by importing this module.

For a process from which others are forked, each of which would do it again. Nothing stays open, and no thread goes on
that a forked process would miss.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from infra import compile_kernels
from lakehouse.serving.publish.macros import bound, macros, unfilled

JOBS = (
    *("build_rollups", "ingest", "maintain", "maintain_queries", "merge_raw", "publish"),
    *("repair_late", "run_queries"),
)
# Of these all modules, since what a query needs depends on its kind.
PACKAGES = ("lakehouse.queries", "lakehouse.serving.publish", "lakehouse.serving.segments")
# Imported by functions of jobs and of libraries.
LATER = ("deltalake", "pyarrow.acero", "pyarrow.dataset", "pyspark.sql", "sqlglot.dialects.spark")

for job in JOBS:
    import_module(f"jobs.{job}")
for package in PACKAGES:
    for found in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
        import_module(found.name)
for name in LATER:
    import_module(name)
for compile_loops in compile_kernels.STEPS:
    compile_loops()
unfilled()
for is_shared in (False, True):
    bound(macros(is_shared=is_shared))
