"""Where things live under the home: one place that knows each path.

    raw/<stream>          accepted rows, Delta              jobs/ingest
    quarantine/<stream>   rejected records, Delta           jobs/ingest
    ledger/<stream>       one row per ingest batch, Delta   jobs/ingest
    rollup/<stream>       nodes of all levels, Delta        jobs/build_rollups, jobs/maintain
    corrections/<stream>  what was changed later, Delta     jobs/maintain, jobs/retract, jobs/build_rollups
    quality/              history of check results, Delta   jobs/check_quality
    reports/              Great Expectations and its pages  jobs/check_quality
    serving/              <version>.duckdb and `current`    jobs/publish
    joins/<query>         pairs of a window join, Delta     jobs/run_queries, jobs/repair_late
    late/<query>          rows that may lack partners       jobs/run_queries
    states/<query>        what a join holds, Delta          jobs/run_queries
    queries/<query>       one row per batch and bucket      jobs/run_queries
    repairs/<query>       one row per repair, Delta         jobs/repair_late
    landing/<stream>/     manifests: which files make up a batch
    plans/<query>/        which ingest batches make up a batch of a query, which of its batches a repair
    checkpoints/          Spark's own offsets
    runs/                 the last outcome of each job, small JSON
    airflow/              Airflow's own home

Each folder is made by whoever writes it first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Home:
    """The folder that holds everything a run writes."""

    root: Path

    def raw(self, stream: str) -> Path:
        """Accepted rows of a stream."""
        return self.root / "raw" / stream

    def quarantine(self, stream: str) -> Path:
        """Rejected records of a stream, with reason, bytes and origin."""
        return self.root / "quarantine" / stream

    def ledger(self, stream: str) -> Path:
        """One row per ingest batch of a stream."""
        return self.root / "ledger" / stream

    def rollup(self, stream: str) -> Path:
        """Nodes of every level and grouping of a stream."""
        return self.root / "rollup" / stream

    def corrections(self, stream: str) -> Path:
        """What was changed in a stream's history after it had been taken in."""
        return self.root / "corrections" / stream

    def joins(self, query: str) -> Path:
        """Pairs of a window join, found online and by repair."""
        return self.root / "joins" / query

    def late(self, query: str) -> Path:
        """Rows that may have missed partners, for the repair."""
        return self.root / "late" / query

    def states(self, query: str) -> Path:
        """What each bucket of a join holds after each batch."""
        return self.root / "states" / query

    def queries(self, query: str) -> Path:
        """Figures of each finished batch and bucket of a query."""
        return self.root / "queries" / query

    def repairs(self, query: str) -> Path:
        """One row per finished repair of a query."""
        return self.root / "repairs" / query

    def tables_of(self, query: str) -> tuple[Path, ...]:
        """Every table of a query; the one that counts its batches is last."""
        places = (self.joins, self.late, self.states, self.repairs, self.queries)
        return tuple(place(query) for place in places)

    def plans(self, query: str) -> Path:
        """Which ingest batches make up which batch of a query, and which of those a repair."""
        return self.root / "plans" / query

    def landing(self, stream: str) -> Path:
        """Manifests of a stream: which files make up which ingest batch."""
        return self.root / "landing" / stream

    def checkpoint(self, job: str, stream: str) -> Path:
        """Spark's checkpoint of one job's stream."""
        return self.root / "checkpoints" / job / stream

    @property
    def quality(self) -> Path:
        """History of check results."""
        return self.root / "quality"

    @property
    def reports(self) -> Path:
        """Great Expectations' context and its pages."""
        return self.root / "reports"

    @property
    def serving(self) -> Path:
        """Published versions and the pointer to the current one."""
        return self.root / "serving"

    @property
    def runs(self) -> Path:
        """The last outcome of each job."""
        return self.root / "runs"

    @property
    def airflow(self) -> Path:
        """Airflow's own home."""
        return self.root / "airflow"
