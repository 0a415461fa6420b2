"""Build every level and grouping of every stream from its new raw rows, or rebuild those of a range.

- **Job** `jobs/build_rollups.py`, one task per stream
- **Reads** `raw` and `ledger`
- **Writes** `rollup`, one commit per stream; a finished run starts `quality`
- **Backfill** trigger it with `from` and `to`: the nodes of that range, widened to whole nodes of the last level, are
  built again from raw in one commit; this is refused if raw rows are deleted
- **If a stream fails** the run is red; the others are checked and published
- **If it is late** recent rows wait in raw; published answers stay right for the time they cover
- **While `tidemark serve` runs** it skips the service's streams, with the reason
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import dag, task

from dags._defaults import RAW, ROLLUP, dag_defaults, range_end
from dags._service_skip import unserved
from dags._step import fail_run_of, step


@dag(
    dag_id="rollups",
    schedule=[RAW],
    doc_md=__doc__,
    tags=["tidemark", "tables"],
    **dag_defaults(
        {
            "from": range_end("first moment of a range to build again"),
            "to": range_end("first moment after that range"),
        }
    ),
)
def rollups() -> None:
    """Roll up each stream, then report that rollup is new."""

    @step()
    def choose(params: Any = None) -> list[str]:
        from jobs.running.scheduled import chosen_streams

        # A range can be rebuilt beside a service: it waits for the service's own builds.
        return chosen_streams(params) if params["from"] or params["to"] else unserved(params, "stream")

    @step(multiple_outputs=False, map_index_template="{{ stream }}")
    def build(stream: str, params: Any = None) -> dict[str, Any]:
        from jobs import build_rollups
        from jobs.running.scheduled import run_one

        return run_one(build_rollups.run_or_rebuild(params), stream, params)

    # A stream whose rollups cannot be built fails alone: the others are checked and published.
    @task(outlets=[ROLLUP], trigger_rule="all_done_min_one_success")
    def built(figures: Any) -> int:
        return len(figures)

    made = build.expand(stream=choose())
    built(made)
    fail_run_of(made)


rollups()
