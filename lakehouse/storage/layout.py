"""The paths below the home: the one place that knows them.

    raw/<stream>          accepted rows, Delta              jobs/ingest
    quarantine/<stream>   rejected records, Delta           jobs/ingest
    ledger/<stream>       one row per ingest batch, Delta   jobs/ingest
    profile/<stream>      figures of each column and day, Delta     jobs/ingest, jobs/maintain
    rollup/<stream>       nodes of all levels, Delta        jobs/build_rollups, jobs/maintain
    remembered/<stream>   identities whose raw rows were dropped, Delta     jobs/maintain
    unchecked/<stream>    rows that came too late to be compared, Delta     jobs/ingest, jobs/maintain
    corrections/<stream>  later changes of history, Delta   jobs/maintain, jobs/retract, jobs/build_rollups
    retracted/<stream>    hashes of retracted rows, Delta   jobs/retract, jobs/ingest
    revised/<stream>      older values of revised rows, Delta       jobs/ingest
    quality/              history of check results, Delta   jobs/check_quality
    checked/              what has passed checks            jobs/check_quality, jobs/check_queries
    kept_nodes/<stream>/  nodes that rules about keys keep between checks: a cache  jobs/check_quality
    reports/              Great Expectations and its pages  jobs/check_quality
    serving/              <version>.duckdb, segments/, `current`    jobs/publish
    pairs/<query>         pairs of a window join, Delta     jobs/run_queries, jobs/repair_late
    multiway/<query>      results of three streams or more  jobs/run_queries, jobs/repair_late
    windows/<query>       rows that later ones can join     jobs/run_queries, jobs/maintain
    missed_rows/<query>   rows that may lack partners       jobs/run_queries
    selection/<query>     rows of a selection, Delta        jobs/run_queries
    answers/<query>       answers at ticks, Delta           jobs/run_queries, jobs/repair_late
    alarms/<query>        alarms raised and cleared, Delta  jobs/run_queries, jobs/repair_late
    states/<query>        contents of buckets, Delta        jobs/run_queries
    operators/<query>     operators of a join that calls predicates, one row per batch and operator  jobs/run_queries
    queries/<query>       one row per batch and bucket      jobs/run_queries
    repairs/<query>       one row per repair, Delta         jobs/repair_late
    needed_slack/<query>  slack that missed pairs needed    jobs/repair_late
    identities/<stream>/  hashes of identities, to find duplicates: a cache   jobs/ingest
    manifests/<stream>/   caches of what was listed and compared
    control.sqlite        manifests, outcomes of jobs, tokens, delivered alarms, unless a database keeps them
    tables.json           the store of the tables, if they are on one (tables_place.py)
    control.json          the home's identity in a control store, if a database keeps its leases and these rows
    attempts/             how often the present batch of a stream has failed   jobs/ingest
    heartbeats/           the last heartbeat of each service, bridge and collector of this machine
    service/              the lease of `tidemark serve`, its Spark log, and long questions to `tidemark web`
    airflow/              Airflow's own home
    packages/             the project's code as an archive for a cluster's workers
    connect.token         what clients of the home's server of Spark Connect show it

The first writer of a folder creates it. The tables (``raw`` to ``corrections``, those of queries and of checks) may be
on an object store instead, at the same paths below a prefix; ``reports`` and ``serving`` are then there, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lakehouse.storage.stores.store_path import Location, StorePath
from lakehouse.storage.tables.tables_place import recorded


@dataclass(frozen=True)
class Part:
    """Manifests of a stream, or of a query, in the control store of a home."""

    home: Home
    kind: str
    name: str

    @property
    def folder(self) -> Path:
        """The folder of caches beside them."""
        return self.home.root / self.kind / self.name


@dataclass(frozen=True)
class Home:
    """The folder that holds everything a run writes, and what its configuration says of where the rest is.

    ``store``: the URL of the tables, where they are on a store; without one the folder says it (tables_place.py).
    ``control``: the URL of the database that keeps leases and rows; without one the environment says it (place.py).
    """

    root: Path
    store: str | None = None
    control: str | None = field(default=None, repr=False)

    @property
    def tables(self) -> Location:
        """The root of the tables: the folder itself, or a place on an object store. Cost: a look for one file."""
        return self.on_store or self.root

    @property
    def on_store(self) -> StorePath | None:
        """The root of the tables on an object store, None if they are in the folder. Cost: as of ``tables``."""
        url = self.store or recorded(self.root)
        return StorePath(url) if url else None

    def folder_of(self, table: Location) -> Path:
        """Return where in the folder a table is, or would be: there is its lease, and what is none of its files."""
        return self.root / table.relative_to(self.tables) if isinstance(table, StorePath) else table

    def raw(self, stream: str) -> Location:
        """Accepted rows of a stream."""
        return self.tables / "raw" / stream

    def quarantine(self, stream: str) -> Location:
        """Rejected records of a stream, with reason, bytes and origin."""
        return self.tables / "quarantine" / stream

    def ledger(self, stream: str) -> Location:
        """One row per ingest batch of a stream."""
        return self.tables / "ledger" / stream

    def profile(self, stream: str) -> Location:
        """Figures of each column and day of a stream, in parts."""
        return self.tables / "profile" / stream

    def identities(self, stream: str) -> Path:
        """Hashes of the known identities, by ingest batch: a cache of raw and of what is remembered beyond it."""
        return self.root / "identities" / stream

    def identity_copies(self, stream: str) -> StorePath | None:
        """Copies of these beside tables on a store, for tasks elsewhere; None where there is none."""
        return store / "identities" / stream if (store := self.on_store) else None

    def rollup(self, stream: str) -> Location:
        """Nodes of every level and grouping of a stream."""
        return self.tables / "rollup" / stream

    def corrections(self, stream: str) -> Location:
        """Later changes of a stream's history."""
        return self.tables / "corrections" / stream

    def retracted(self, stream: str) -> Location:
        """Hashes of rows that corrections retract, by which results that rest on them are found."""
        return self.tables / "retracted" / stream

    def revised(self, stream: str) -> Location:
        """Accepted rows that newer ones have revised, as raw had them."""
        return self.tables / "revised" / stream

    def remembered(self, stream: str) -> Location:
        """Identities of accepted rows that raw no longer has, as hashes."""
        return self.tables / "remembered" / stream

    def unchecked(self, stream: str) -> Location:
        """Accepted rows that could not be compared with all earlier ones, by range of time and measure."""
        return self.tables / "unchecked" / stream

    def pairs(self, query: str) -> Location:
        """Pairs of a window join, found online and by repair."""
        return self.tables / "pairs" / query

    def multiway(self, query: str) -> Location:
        """Results of a join of three streams or more, found online and by repair."""
        return self.tables / "multiway" / query

    def windows(self, query: str) -> Location:
        """Rows of each stream that later rows can join, for a join of three streams or more."""
        return self.tables / "windows" / query

    def selection(self, query: str) -> Location:
        """Rows that a selection selected."""
        return self.tables / "selection" / query

    def missed_rows(self, query: str) -> Location:
        """Rows that may have missed partners, for the repair."""
        return self.tables / "missed_rows" / query

    def answers(self, query: str) -> Location:
        """Answers of an aggregate query at its ticks, with every revision."""
        return self.tables / "answers" / query

    def alarms(self, query: str) -> Location:
        """Alarms of a query, with every change."""
        return self.tables / "alarms" / query

    def states(self, query: str) -> Location:
        """The contents of each bucket of a query after each batch."""
        return self.tables / "states" / query

    def operators(self, query: str) -> Location:
        """Measurements of the conditions of a join that calls predicates, and of its kernel, in each batch."""
        return self.tables / "operators" / query

    def queries(self, query: str) -> Location:
        """Metrics of each finished batch of a query, by bucket or side."""
        return self.tables / "queries" / query

    def repairs(self, query: str) -> Location:
        """One row per finished repair of a query."""
        return self.tables / "repairs" / query

    def needed_slack(self, query: str) -> Location:
        """Slack that the pairs found by repairs of a query would have needed."""
        return self.tables / "needed_slack" / query

    @property
    def delivered_alarms(self) -> Path:
        """The path of the lease for delivering changes of alarms; it holds nothing else."""
        return self.root / "delivered_alarms"

    def tables_of(self, query: str) -> tuple[Location, ...]:
        """All tables that a query can have; the last one counts its batches."""
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

    def batch_manifests(self, query: str) -> Part:
        """The manifests of a query."""
        return Part(self, "batch_manifests", query)

    def manifests(self, stream: str) -> Part:
        """The manifests of a stream, and caches of what was listed."""
        return Part(self, "manifests", stream)

    def attempts(self, stream: str) -> Path:
        """Count of failures of a stream's present batch."""
        return self.root / "attempts" / f"{stream}.json"

    @property
    def quality(self) -> Location:
        """History of check results."""
        return self.tables / "quality"

    def checked(self, stream: str) -> Path:
        """The parts of a stream that passed checks."""
        return self.root / "checked" / f"{stream}.json"

    def passed(self, subject: str) -> Path:
        """The last check of a stream or query that passed."""
        return self.root / "checked" / f"{subject}.passed.json"

    def kept_nodes(self, stream: str) -> Location:
        """Nodes that a stream's rules about keys keep between checks, as parts that tasks write."""
        return self.tables / "kept_nodes" / stream

    def kept_nodes_index(self, stream: str) -> Path:
        """The parts of these, by rule."""
        return self.root / "checked" / f"{stream}.nodes.json"

    def reported_misses(self, query: str) -> Path:
        """The periods of a query below their recall that a check has reported."""
        return self.root / "checked" / f"query-{query}.misses.json"

    @property
    def reports(self) -> Path:
        """Great Expectations' context."""
        return self.root / "reports"

    @property
    def report_pages(self) -> Location:
        """The pages of results of checks, with the tables."""
        return self.tables / "reports" / "site"

    @property
    def published(self) -> StorePath | None:
        """Published versions on the store that has the tables; None if only the folder has them."""
        return store / "serving" if (store := self.on_store) else None

    @property
    def serving(self) -> Path:
        """Published versions and the pointer to the current one."""
        return self.root / "serving"

    @property
    def heartbeats(self) -> Path:
        """The last heartbeat of each service, bridge and collector."""
        return self.root / "heartbeats"

    @property
    def service(self) -> Path:
        """The Spark log of a service; the service holds the lease of this folder."""
        return self.root / "service"

    @property
    def spark_log(self) -> Path:
        """The log of the Spark JVM that a command last started."""
        return self.root / "spark.log"

    @property
    def connect_token(self) -> Path:
        """The token that clients of the home's server of Spark Connect show it."""
        return self.root / "connect.token"

    @property
    def airflow(self) -> Path:
        """Airflow's own home."""
        return self.root / "airflow"

    @property
    def packages(self) -> Path:
        """The project's code as archives that the workers of a cluster import from."""
        return self.root / "packages"
