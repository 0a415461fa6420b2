"""Start a query over: delete its tables, manifests and outcomes, even if that is killed on the way several times.

The meaning is deleted last, with the manifests, and is first replaced by one that no query has. A query that was only
partly deleted is therefore refused as changed until it is deleted completely, so nothing depends on batches whose
tables are missing.
"""

from contextlib import ExitStack

from lakehouse.storage.control.lease import lease
from lakehouse.storage.control.manifests import Manifests, names_in, remove
from lakehouse.storage.control.outcomes import forget_outcome
from lakehouse.storage.layout import Home
from lakehouse.storage.query_meaning import replace_definition
from lakehouse.storage.tables.table_maintenance import remove_table

# Of the manifests of a query; all go in one transaction.
SERIES = ("batch", "repair", "stopped", "meaning")
JOBS = ("run_queries", "repair_late", "check_queries", "maintain_queries")
_FORGOTTEN = "(being forgotten)"


def known_queries(layout: Home) -> list[str]:
    """Return the names of all queries that have tables or manifests, registered or not."""
    folders = {place.parent for place in layout.tables_of("any")}
    found = {path.name for folder in folders if folder.is_dir() for path in folder.iterdir() if path.is_dir()}
    found |= set(names_in(layout, "batch_manifests"))
    return sorted(name for name in found if not name.startswith("."))


def forget(layout: Home, query: str) -> int:
    """Delete a query's tables, manifests and outcomes; return their size in bytes.

    Raises LeaseHeld if another process runs or repairs the query now.
    """
    with ExitStack() as leases:
        for table in (layout.queries(query), layout.repairs(query)):
            leases.enter_context(lease(layout, table))
        plans, tables = layout.batch_manifests(query), layout.tables_of(query)
        size = sum(path.stat().st_size for table in tables for path in table.rglob("*") if path.is_file())
        replace_definition(plans, _FORGOTTEN, _FORGOTTEN)
        for table in tables:
            remove_table(layout, table)
        for job in JOBS:
            forget_outcome(layout, job, query)
        layout.reported_misses(query).unlink(missing_ok=True)
        remove(Manifests(plans, series) for series in SERIES)
        return size
