"""Ingest the landed files and new messages of every stream into raw, quarantine and ledger.

- **Job** `jobs/ingest.py`, one task per stream
- **Reads** each stream's landing folder or topics
- **Writes** `raw`, `quarantine` and `ledger`; a finished run starts `rollups`
- **If a stream cannot be read** its task fails and the run is red; the others continue
- **If it is late** answers are as old as the last run; nothing is lost, the next run ingests everything that has
  landed
- **While `tidemark serve` runs** it skips the service's streams, with the reason
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import dag, task

from dags._defaults import INGEST_SCHEDULE, RAW, dag_defaults
from dags._service_skip import unserved
from dags._step import fail_run_of, step


@dag(dag_id="ingest", schedule=INGEST_SCHEDULE, doc_md=__doc__, tags=["tidemark", "tables"], **dag_defaults())
def ingest() -> None:
    """Ingest each stream, then report that raw is new."""

    @step()
    def choose(params: Any = None) -> list[str]:
        return unserved(params, "stream")

    @step(multiple_outputs=False, map_index_template="{{ stream }}")
    def take(stream: str, params: Any = None) -> dict[str, Any]:
        from jobs import ingest
        from jobs.running.scheduled import run_one

        return run_one(ingest.run, stream, params)

    # A stream that cannot be read fails alone: the batches of the others are processed.
    @task(outlets=[RAW], trigger_rule="all_done_min_one_success")
    def landed(figures: Any) -> int:
        return len(figures)

    taken = take.expand(stream=choose())
    landed(taken)
    fail_run_of(taken)


ingest()
