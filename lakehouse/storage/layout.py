"""The paths below the home: the one place that knows them.

    raw/<stream>          accepted rows, Delta              jobs/ingest
    quarantine/<stream>   rejected records, Delta           jobs/ingest
    ledger/<stream>       one row per ingest batch, Delta   jobs/ingest
    profile/<stream>      figures of each column and day, Delta     jobs/ingest, jobs/maintain
    rollup/<stream>       nodes of all levels, Delta        jobs/build_rollups, jobs/maintain
    remembered/<stream>   identities whose raw rows were dropped, Delta     jobs/maintain
    unchecked/<stream>    rows that came too late to be compared, Delta     jobs/ingest, jobs/maintain
    corrections/<stream>  later changes of history, Delta   jobs/maintain, jobs/retract, jobs/build_rollups
    retracted/<stream>    places of retracted rows, Delta   jobs/retract, jobs/ingest
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

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from lakehouse.storage.stores.store_path import Location, StorePath
from lakehouse.storage.tables.tables_place import recorded


class Table:
    """Tables that are named after the attribute, one for each stream or query: called with its name, where it is."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.folder = name

    def __get__(self, home: Home, owner: type) -> Callable[[str], Location]:
        return partial(_table, home, self.folder)


def _table(home: Home, folder: str, name: str) -> Location:
    return home.tables / folder / name


@dataclass(frozen=True)
class Inside:
    """Path in the folder itself, whether or not the tables are there."""

    path: str

    def __get__(self, home: Home, owner: type) -> Path:
        return home.root / self.path


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

    # Of a stream.
    raw = Table()
    quarantine = Table()
    ledger = Table()
    profile = Table()
    rollup = Table()
    corrections = Table()
    retracted = Table()
    revised = Table()
    remembered = Table()
    unchecked = Table()
    kept_nodes = Table()
    # Of a registered query.
    pairs = Table()
    multiway = Table()
    windows = Table()
    selection = Table()
    missed_rows = Table()
    answers = Table()
    alarms = Table()
    states = Table()
    operators = Table()
    queries = Table()
    repairs = Table()
    needed_slack = Table()
    # The lease for delivering changes of alarms; it holds nothing else.
    delivered_alarms = Inside("delivered_alarms")
    reports = Inside("reports")
    serving = Inside("serving")
    heartbeats = Inside("heartbeats")
    service = Inside("service")
    # The log of the Spark JVM that a command last started.
    spark_log = Inside("spark.log")
    connect_token = Inside("connect.token")
    airflow = Inside("airflow")
    packages = Inside("packages")

    def identities(self, stream: str) -> Path:
        """Hashes of the known identities, by ingest batch: a cache of raw and of what is remembered beyond it."""
        return self.root / "identities" / stream

    def identity_copies(self, stream: str) -> StorePath | None:
        """Copies of these beside tables on a store, for tasks elsewhere; None where there is none."""
        return store / "identities" / stream if (store := self.on_store) else None

    def tables_of(self, query: str) -> tuple[Location, ...]:
        """All tables that a query can have; the last one counts its batches."""
        results = (self.pairs, self.multiway, self.windows, self.selection, self.answers, self.alarms)
        others = (
            self.missed_rows,
            self.states,
            self.needed_slack,
            self.operators,
            self.repairs,
            self.queries,
        )
        return tuple(table(query) for table in (*results, *others))

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

    def kept_nodes_index(self, stream: str) -> Path:
        """The parts of ``kept_nodes``, by rule."""
        return self.root / "checked" / f"{stream}.nodes.json"

    def reported_misses(self, query: str) -> Path:
        """The periods of a query below their recall that a check has reported."""
        return self.root / "checked" / f"query-{query}.misses.json"

    @property
    def report_pages(self) -> Location:
        """The pages of results of checks, with the tables."""
        return self.tables / "reports" / "site"

    @property
    def published(self) -> StorePath | None:
        """Published versions on the store that has the tables; None if only the folder has them."""
        return store / "serving" if (store := self.on_store) else None
