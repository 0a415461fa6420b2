"""The tables of a control store, and their version, which stands for all that a home keeps.

    tidemark_schema      one row: the version of the tables; SQLite's ``user_version`` in a file
    tidemark_leases      a row for each lease that was ever taken, with the number of its last holder; none in a file
    tidemark_outcomes    how each job last ended, by job and stream, as JSON
    tidemark_tokens      hashes of tokens, and what each is good for: lists as JSON, no list of streams for all
    tidemark_delivered   up to which batch and repair of a query the changes of its alarms were confirmed or refused;
                         of ``rules:STREAM`` up to which time those of its rules were
    tidemark_manifests   what each batch reads, and what a query means, with a checksum (manifests.py)
    tidemark_files       the files of ingest manifests, by name and by content
    tidemark_heartbeats  the last heartbeat of each service, bridge and collector, as JSON; none in a file
    tidemark_refused     changes of alarms that the address refused, as they were posted; until it takes them

A home that another version wrote is refused with what to do. The version grows with every change of these tables, and
of any table, state or file of a home that has no version of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.config.problems import Permanent

if TYPE_CHECKING:
    from sqlalchemy import Connection

VERSION = 17
# ``holder`` is null where the last holder has given the lease back.
TABLES = (
    "CREATE TABLE tidemark_leases (home TEXT NOT NULL, name TEXT NOT NULL, fence BIGINT NOT NULL, holder TEXT, "
    "PRIMARY KEY (home, name))",
    "CREATE TABLE tidemark_outcomes (home TEXT NOT NULL, job TEXT NOT NULL, stream TEXT NOT NULL, "
    "outcome TEXT NOT NULL, PRIMARY KEY (home, job, stream))",
    "CREATE TABLE tidemark_tokens (home TEXT NOT NULL, name TEXT NOT NULL, hash TEXT NOT NULL, "
    "scopes TEXT NOT NULL, streams TEXT, created_at TEXT NOT NULL, PRIMARY KEY (home, name))",
    "CREATE TABLE tidemark_delivered (home TEXT NOT NULL, query TEXT NOT NULL, batch BIGINT NOT NULL, "
    "repair BIGINT NOT NULL, PRIMARY KEY (home, query))",
    "CREATE TABLE tidemark_refused (home TEXT NOT NULL, query TEXT NOT NULL, alarm TEXT NOT NULL, "
    "change BIGINT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (home, query, alarm, change))",
    "CREATE TABLE tidemark_manifests (home TEXT NOT NULL, part TEXT NOT NULL, number BIGINT NOT NULL, "
    "kind TEXT NOT NULL, body TEXT NOT NULL, sum TEXT NOT NULL, PRIMARY KEY (home, part, number))",
    # Of these few are kept forever, and all are asked for.
    "CREATE INDEX tidemark_few ON tidemark_manifests (home, part, kind) WHERE kind NOT IN ('files', 'kafka')",
    "CREATE TABLE tidemark_files (home TEXT NOT NULL, part TEXT NOT NULL, path TEXT NOT NULL, "
    "batch BIGINT NOT NULL, size BIGINT NOT NULL, mtime_ns BIGINT NOT NULL, digest TEXT NOT NULL, "
    "is_read INTEGER NOT NULL, PRIMARY KEY (home, part, path, batch))",
    "CREATE INDEX tidemark_contents ON tidemark_files (home, part, digest)",
    "CREATE TABLE tidemark_heartbeats (home TEXT NOT NULL, kind TEXT NOT NULL, stream TEXT NOT NULL, "
    "heartbeat TEXT NOT NULL, PRIMARY KEY (home, kind, stream))",
)
# The rows of a home besides its leases: each table's columns after ``home``.
ROWS = {
    "tidemark_outcomes": ("job", "stream", "outcome"),
    "tidemark_delivered": ("query", "batch", "repair"),
    "tidemark_refused": ("query", "alarm", "change", "body"),
    "tidemark_tokens": ("name", "hash", "scopes", "streams", "created_at"),
    "tidemark_manifests": ("part", "number", "kind", "body", "sum"),
    "tidemark_files": ("part", "path", "batch", "size", "mtime_ns", "digest", "is_read"),
}
# One process changes the tables at a time; any number that no lease has by chance.
_CHANGING = 7_305_190_428_113_220_608


class OtherVersion(Permanent, RuntimeError):
    """The home is of another version than this one reads."""


def create_tables(connection: Connection) -> None:
    """Create the tables; nothing where they are. Raises OtherVersion when they are of another one."""
    from sqlalchemy import text

    if version_of(connection) == VERSION:
        return
    connection.execute(text("BEGIN"))
    try:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _CHANGING})
        # Before the version is read again: it makes Postgres see what another process made meanwhile.
        connection.execute(text("CREATE TABLE IF NOT EXISTS tidemark_schema (version BIGINT NOT NULL)"))
        if version_of(connection) == 0:
            for statement in TABLES:
                connection.execute(text(statement))
            connection.execute(text("INSERT INTO tidemark_schema VALUES (:version)"), {"version": VERSION})
    except BaseException:
        connection.execute(text("ROLLBACK"))
        raise
    connection.execute(text("COMMIT"))


def version_of(connection: Connection) -> int:
    """Return the version of the tables, 0 where there are none.

    Raises OtherVersion when it is another one than this.
    """
    from sqlalchemy import text

    if connection.execute(text("SELECT to_regclass('tidemark_schema')")).scalar() is None:
        return 0
    found = int(connection.execute(text("SELECT max(version) FROM tidemark_schema")).scalar() or 0)
    require_known(found, "the control store")
    return found


def require_known(version: int, store: str) -> None:
    """Make sure that the tables of a store are of this version, or not made yet.

    Raises OtherVersion when they are of another one.
    """
    if version in (0, VERSION):
        return
    found = f"{store} has tables of version {version}, and this Tidemark reads version {VERSION}"
    if version > VERSION:
        raise OtherVersion(f"{found}: run the newer Tidemark that made them")
    raise OtherVersion(
        f"{found}: run the older Tidemark that made them, or ingest the landed files into a new home"
    )
