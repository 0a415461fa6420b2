"""Assets of a home: a table of each stream, the results of each query, and the published version."""

from pathlib import Path

from airflow.sdk import Asset, AssetAlias, AssetAny

from lakehouse.config.airflow.homes import AirflowHome
from lakehouse.storage.layout import Home

# Names of the assets that have started a run, none where somebody did.
EVENTS = "{{ triggering_asset_events.keys() | map(attribute='name') | join(',') }}"


def asset(home: AirflowHome, table: str, name: str = "all") -> Asset:
    """Return the asset of one table of a stream, of a query's results, or of the published version."""
    layout, prefix = Home(Path("/")), home.settings.prefix
    tables = {"results": layout.queries, "serving": lambda _: layout.serving}
    base = home.tables if home.tables and table != "checked" else home.root.as_uri()
    uri = f"{base}{(tables.get(table) or getattr(layout, table))(name)}"
    return Asset(name=f"{prefix}/{table}/{name}", uri=uri, group=prefix, extra={"table": table, "of": name})


def any_of(home: AirflowHome, table: str, of_queries: str = "") -> AssetAny | None:
    """Return the schedule that news of a table of any stream starts, or of any query; None if there is none."""
    waking = [asset(home, table, name) for name in home.streams]
    waking += [asset(home, of_queries, name) for name in home.queries if of_queries]
    return AssetAny(*waking) if waking else None


def served(home: AirflowHome) -> AssetAlias:
    """Return the name under which the watch reports streams that a service has processed."""
    return AssetAlias(f"{home.settings.prefix}_served", group=home.settings.prefix)
