"""Build every level and grouping of every stream from its new raw rows, or rebuild those of a range.

- **Job** `jobs/build_rollups.py`, one task per stream
- **Reads** `raw` and `ledger`
- **Writes** `rollup`, one commit per stream; each stream's starts its `quality`
- **Backfill** trigger it with `from` and `to`: the nodes of that range, widened to whole nodes of the last level, are
  built again from raw in one commit; this is refused if raw rows are deleted
- **If a stream fails** the run is red; the others are checked and published
- **If it is late** recent rows wait in raw; published answers stay right for the time they cover
- **While `tidemark serve` runs** it skips the service's streams, with the reason
"""

from typing import Any

from airflow.sdk import DAG

from dags._assets import EVENTS, any_of, asset
from dags._choice import choice, task_of, unserved
from dags._defaults import SEVERAL, dag_defaults
from dags._events import report
from dags._params import RANGE
from dags._step import step
from lakehouse.config.airflow.homes import AirflowHome, airflow_homes


def rollups(home: AirflowHome) -> Any:
    """Return the DAG of a home."""

    @choice
    def choose(events: str, params: Any = None) -> list[str]:
        from jobs.running.chosen import begun_streams, chosen_streams

        if not (params["from"] or params["to"]):
            return unserved(params, "stream", events)
        # A range can be rebuilt beside a service: it waits for the service's own builds. Of a stream that nothing has
        # come of yet there is none, which is a fault only where no other is asked for.
        return begun_streams(params) or chosen_streams(params)

    @step(multiple_outputs=False, post_execute=report)
    def build(stream: str, params: Any = None) -> dict[str, Any]:
        from jobs import build_rollups
        from jobs.running.scheduled import run_one

        return run_one(build_rollups.run_or_rebuild(params), stream, params)

    with DAG(
        schedule=any_of(home, "raw"),
        doc_md=__doc__,
        **dag_defaults(home, "rollups", "tables", RANGE) | SEVERAL,
    ) as made:
        builds = [
            task_of(build, {"stream": name}, outlets=[asset(home, "rollup", name)]) for name in home.streams
        ]
        choose(EVENTS) >> builds
    return made


for home in airflow_homes():
    rollups(home)
