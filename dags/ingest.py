"""Take what has landed for every stream into raw, quarantine and ledger.

- **Job** `jobs/ingest.py`, one task per stream
- **Reads** each stream's landing folder
- **Writes** `raw`, `quarantine` and `ledger`; a finished run starts `rollups`
- **If it is late** answers are as old as the last run; nothing is lost, the next run takes all that has landed
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import dag, task

from dags._defaults import INGEST_SCHEDULE, RAW, dag_defaults


@dag(dag_id="ingest", schedule=INGEST_SCHEDULE, doc_md=__doc__, tags=["tidemark", "tables"], **dag_defaults())
def ingest() -> None:
    """Ingest each stream, then tell that raw is new."""

    @task
    def choose(params: Any = None) -> list[str]:
        from jobs.scheduled import chosen_streams

        return chosen_streams(params)

    @task(map_index_template="{{ stream }}")
    def take(stream: str, params: Any = None) -> dict[str, Any]:
        from jobs import ingest
        from jobs.scheduled import run_one

        return run_one(ingest.run, stream, params)

    @task(outlets=[RAW])
    def landed(figures: Any) -> int:
        return len(figures)

    landed(take.expand(stream=choose()))


ingest()
