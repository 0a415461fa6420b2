"""Where things live under the home: one place that knows each path.

    raw/<stream>          accepted rows, Delta              jobs/ingest
    quarantine/<stream>   rejected records, Delta           jobs/ingest
    ledger/<stream>       one row per ingest batch, Delta   jobs/ingest
    rollup/<stream>       nodes of all levels, Delta        jobs/build_rollups, jobs/maintain
    corrections/<stream>  what was changed later, Delta     jobs/maintain, jobs/retract, jobs/build_rollups
    quality/              history of check results, Delta   jobs/check_quality
    checked/              what checks have passed           jobs/check_quality, jobs/check_queries
    reports/              Great Expectations and its pages  jobs/check_quality
    serving/              <version>.duckdb, segments/, `current`    jobs/publish
    pairs/<query>         pairs of a window join, Delta     jobs/run_queries, jobs/repair_late
    multiway/<query>      results of three streams or more  jobs/run_queries, jobs/repair_late
    windows/<query>       rows that later ones can meet     jobs/run_queries, jobs/maintain
    missed_rows/<query>   rows that may lack partners       jobs/run_queries
    selection/<query>     rows of a selection, Delta        jobs/run_queries
    answers/<query>       answers at ticks, Delta           jobs/run_queries, jobs/repair_late
    alarms/<query>        alarms raised and cleared, Delta  jobs/run_queries, jobs/repair_late
    states/<query>        what a query holds, Delta         jobs/run_queries
    operators/<query>     operators of a join that calls predicates, one row per batch and operator  jobs/run_queries
    queries/<query>       one row per batch and bucket      jobs/run_queries
    repairs/<query>       one row per repair, Delta         jobs/repair_late
    needed_slack/<query>  slack that missed pairs needed    jobs/repair_late
    identities/<stream>/  hashes of identities, to find repeats: a cache   jobs/ingest
    manifests/<stream>/   manifests: which files make up a batch
    batch_manifests/<query>/  which ingest batches make up a batch of a query, which of its batches a repair
    control.sqlite        outcomes of jobs, tokens, delivered alarms, where no database keeps them (control/store.py)
    tables.json           on which store the tables are, where they are on one (tables_place.py)
    copies.json           up to where this home has copied what machines share by rows (control/copies.py)
    control.json          the home's identity in a control store, where a database keeps its leases and these rows
    attempts/             how often the batch that a stream takes in now has failed   jobs/ingest
    heartbeats/           signs of life of services, bridges and collectors
    service/              the heartbeat of `tidemark serve`, and what its Spark says
    airflow/              Airflow's own home
    packages/             the project's code as a cluster's workers get it

Each folder is made by whoever writes it first. Tables, those from ``raw`` to ``corrections``, of queries and of checks,
may be on an object store instead, at the same paths below a prefix.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lakehouse.home.tables_place import place_in


@dataclass(frozen=True)
class Home:
    """The folder that holds everything a run writes."""

    root: Path

    @property
    def tables(self) -> Path:
        """Below what the tables are: the folder itself, or a place on an object store (tables_place.py)."""
        return place_in(self.root)

    def raw(self, stream: str) -> Path:
        """Accepted rows of a stream."""
        return self.tables / "raw" / stream

    def quarantine(self, stream: str) -> Path:
        """Rejected records of a stream, with reason, bytes and origin."""
        return self.tables / "quarantine" / stream

    def ledger(self, stream: str) -> Path:
        """One row per ingest batch of a stream."""
        return self.tables / "ledger" / stream

    def identities(self, stream: str) -> Path:
        """Hashes of the identities in raw, by ingest batch: a cache."""
        return self.root / "identities" / stream

    def rollup(self, stream: str) -> Path:
        """Nodes of every level and grouping of a stream."""
        return self.tables / "rollup" / stream

    def corrections(self, stream: str) -> Path:
        """What was changed in a stream's history after it had been taken in."""
        return self.tables / "corrections" / stream

    def pairs(self, query: str) -> Path:
        """Pairs of a window join, found online and by repair."""
        return self.tables / "pairs" / query

    def multiway(self, query: str) -> Path:
        """Results of a join of three streams or more, found online and by repair."""
        return self.tables / "multiway" / query

    def windows(self, query: str) -> Path:
        """Rows of each stream that later rows can meet, for a join of three streams or more."""
        return self.tables / "windows" / query

    def selection(self, query: str) -> Path:
        """Rows that a selection let through."""
        return self.tables / "selection" / query

    def missed_rows(self, query: str) -> Path:
        """Rows that may have missed partners, for the repair."""
        return self.tables / "missed_rows" / query

    def answers(self, query: str) -> Path:
        """Answers of a join-aggregate at its ticks, with every revision."""
        return self.tables / "answers" / query

    def alarms(self, query: str) -> Path:
        """Alarms of a query, with every change."""
        return self.tables / "alarms" / query

    def states(self, query: str) -> Path:
        """What each bucket of a query holds after each batch."""
        return self.tables / "states" / query

    def operators(self, query: str) -> Path:
        """What was measured of the conditions of a join that calls predicates, and of its kernel, in each batch."""
        return self.tables / "operators" / query

    def queries(self, query: str) -> Path:
        """Figures of each finished batch of a query, by bucket or side."""
        return self.tables / "queries" / query

    def repairs(self, query: str) -> Path:
        """One row per finished repair of a query."""
        return self.tables / "repairs" / query

    def needed_slack(self, query: str) -> Path:
        """How much slack the pairs that repairs of a query found would have needed."""
        return self.tables / "needed_slack" / query

    @property
    def delivered_alarms(self) -> Path:
        """What to hold while changes of alarms are delivered; nothing is there but the lease."""
        return self.root / "delivered_alarms"

    def tables_of(self, query: str) -> tuple[Path, ...]:
        """Every table that a query can have; the one that counts its batches is last."""
        found = (self.pairs, self.multiway, self.windows, self.selection, self.answers, self.alarms)
        places = (
            *found,
            self.missed_rows,
            self.states,
            self.needed_slack,
            self.operators,
            self.repairs,
            self.queries,
        )
        return tuple(place(query) for place in places)

    def batch_manifests(self, query: str) -> Path:
        """Which ingest batches make up which batch of a query, and which of those a repair."""
        return self.root / "batch_manifests" / query

    def manifests(self, stream: str) -> Path:
        """Manifests of a stream: which files make up which ingest batch."""
        return self.root / "manifests" / stream

    def attempts(self, stream: str) -> Path:
        """How often the batch that a stream takes in now has failed."""
        return self.root / "attempts" / f"{stream}.json"

    @property
    def quality(self) -> Path:
        """History of check results."""
        return self.tables / "quality"

    def checked(self, stream: str) -> Path:
        """What checks of a stream have passed."""
        return self.root / "checked" / f"{stream}.json"

    def passed(self, subject: str) -> Path:
        """The last check of a stream or query that passed."""
        return self.root / "checked" / f"{subject}.passed.json"

    @property
    def reports(self) -> Path:
        """Great Expectations' context and its pages."""
        return self.root / "reports"

    @property
    def serving(self) -> Path:
        """Published versions and the pointer to the current one."""
        return self.root / "serving"

    @property
    def heartbeats(self) -> Path:
        """What services, bridges and collectors last said of themselves."""
        return self.root / "heartbeats"

    @property
    def service(self) -> Path:
        """What the Spark of a service says; the service holds the lease of this folder."""
        return self.root / "service"

    @property
    def spark_log(self) -> Path:
        """What Spark's JVM said to the last command that started one."""
        return self.root / "spark.log"

    @property
    def airflow(self) -> Path:
        """Airflow's own home."""
        return self.root / "airflow"

    @property
    def packages(self) -> Path:
        """The project's code as archives that the workers of a cluster import from."""
        return self.root / "packages"
