"""Delete old raw rows and nodes, fold partial nodes, merge small files and vacuum.

- **Jobs** `jobs/maintain.py` and `jobs/merge_raw.py`, a task each per stream; `jobs/maintain_queries.py`, one per
  query
- **Reads** every table
- **Writes** every table, without changing an answer; with `keep_raw`, it deletes raw rows that are older
- **If it is late** tables grow and reading them slows down; answers stay right
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import dag, task_group

from dags._defaults import MAINTAIN_SCHEDULE, dag_defaults, of_queries
from dags._step import step

TAGS = ["tidemark", "tables"]


@dag(dag_id="maintain", schedule=MAINTAIN_SCHEDULE, doc_md=__doc__, tags=TAGS, **dag_defaults(of_queries()))
def maintain() -> None:
    """Maintain the tables of each stream and of each query."""

    @step()
    def choose(params: Any = None) -> list[str]:
        from jobs.running.scheduled import chosen_streams

        return chosen_streams(params)

    @step(multiple_outputs=False, map_index_template="{{ task.op_kwargs['stream'] }}")
    def compact_and_vacuum(stream: str, params: Any = None) -> dict[str, Any]:
        from jobs import maintain
        from jobs.running.scheduled import run_one

        return run_one(maintain.run, stream, params)

    @step(multiple_outputs=False, map_index_template="{{ task.op_kwargs['stream'] }}")
    def merge(stream: str, params: Any = None) -> dict[str, Any]:
        from jobs import merge_raw
        from jobs.running.scheduled import run_one

        return run_one(merge_raw.run, stream, params)

    # A group, so that a stream that fails does not keep others from being merged.
    @task_group
    def by_stream(stream: str) -> None:
        compact_and_vacuum(stream=stream) >> merge(stream=stream)

    @step()
    def choose_queries(params: Any = None) -> list[str]:
        from jobs.running.scheduled import chosen_queries

        return chosen_queries(params)

    @step(multiple_outputs=False, map_index_template="{{ query }}")
    def tend_query(query: str, params: Any = None) -> dict[str, Any]:
        from jobs import maintain_queries
        from jobs.running.scheduled import run_one

        return run_one(maintain_queries.run, query, params)

    by_stream.expand(stream=choose())
    tend_query.expand(query=choose_queries())


maintain()
