"""``ALERTS``: 1 while an alarm of a registered query is raised; the query is ``alertname``, its groups are labels."""

from __future__ import annotations

from collections.abc import Sequence

from lakehouse.serving.literals import name, text
from lakehouse.serving.sandbox.sandbox import PublishedReader
from lakehouse.web.prometheus.evaluate import Found, Samples
from lakehouse.web.prometheus.metrics import matching
from lakehouse.web.prometheus.promql import AlertsQuestion

_MOST = 10_000


def alerts(reader: PublishedReader, asked: AlertsQuestion, times_us: Sequence[int]) -> Found:
    """Return a series for each group that had an alarm at one of the times."""
    found: dict[tuple[tuple[str, str], ...], Samples] = {}
    queries = reader.connection.execute(
        """SELECT query, "groups" FROM queries WHERE 'alarms_' || query IN (SELECT view_name FROM duckdb_views())"""
    ).fetchall()
    for query, groups in queries:
        for values, raised, cleared in _alarms(reader, query, groups, times_us):
            labels = {"__name__": "ALERTS", "alertname": query, "alertstate": "firing"}
            labels |= {group: value for group, value in zip(groups, values, strict=True) if value is not None}
            one = found.setdefault(tuple(sorted(labels.items())), Samples(labels))
            one.points += [(t, 1.0) for t in times_us if raised <= t and (cleared is None or t < cleared)]
    series = [one for one in found.values() if one.points]
    kept = {
        tuple(sorted(one.items())) for one in matching(reader, [s.labels for s in series], asked.matchers)
    }
    return Found([one for one in series if tuple(sorted(one.labels.items())) in kept], [])


def _alarms(
    reader: PublishedReader, query: str, groups: Sequence[str], times_us: Sequence[int]
) -> list[tuple[list[str | None], int, int | None]]:
    values = ", ".join(f"{name(group)}::VARCHAR" for group in groups)
    rows = reader.connection.execute(
        f"""
        SELECT [{values}]::VARCHAR[], raised_us, cleared_us FROM {name(f"alarms_{query}")}
        WHERE state <> {text("withdrawn")} AND raised_us <= {times_us[-1]}
            AND coalesce(cleared_us > {times_us[0]}, true)
        ORDER BY raised_us LIMIT {_MOST}
        """
    ).fetchall()
    return [(row[0], row[1], row[2]) for row in rows]
