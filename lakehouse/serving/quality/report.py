"""Report on a stream's quality on a day: what came in, how new it is, which rules hold, what was rejected.

A day is one of UTC on which rows came in or checks ran; all counts are as of its end, so that a report of a day that is
over stays as it is. Read without an engine. Cost: the stream's ledger, its rejected records of the day, and the runs of
its rules (``verdicts.py``).
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import duckdb

from lakehouse.config.durations import format_timestamp
from lakehouse.serving.literals import parquet_of, text
from lakehouse.serving.quality.changes import RULES
from lakehouse.serving.quality.sentences import (
    balance_sentence,
    fresh_sentence,
    is_balanced,
    plausible_sentence,
    reason_sentence,
)
from lakehouse.serving.quality.verdicts import DAY_US, moment, rules_of, subjects
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.serving.table_reader import named_rows
from lakehouse.serving.versions.versions import NotPublished
from lakehouse.storage import profiles
from lakehouse.storage.control.manifests import names_in
from lakehouse.storage.control.store import store_of
from lakehouse.storage.layout import Home
from lakehouse.storage.masks import form_of

DAYS = 30

# Days that a report links; files and examples of records of each reason, and letters of an example.
_DAYS, _FILES, _EXAMPLES, _FORM = 60, 3, 2, 80
_QUERY = "query-"
_COUNTS = ("received", "requeued", "accepted", "quarantined", "duplicates", "revised", "late")
_STATES = ("fails", "warns", "rejects", "holds")
Fields = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """Reports of one home; ``address``: where changes of its rules are posted, if anywhere.

    ``units``: by stream the columns that hold times, with the unit of each.
    """

    layout: Home
    connection: duckdb.DuckDBPyConnection
    address: str | None = None
    units: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def subjects(self) -> list[str]:
        """Return every stream, and every query that was checked, as ``query-NAME``."""
        streams = names_in(self.layout, "manifests")
        return sorted({*streams, *subjects(self.connection, self.layout.quality)}, key=_streams_first)

    def days(self, subject: str) -> list[date]:
        """Return the days that have a report, the newest first."""
        times = [("committed_at", parquet_of(self.layout.ledger(subject)), "true")]
        times += [('"at"', parquet_of(self.layout.quality), f"stream = {text(subject)}")]
        parts = [
            f"SELECT epoch_us({name}) // {DAY_US} AS day FROM {stored} WHERE {condition}"
            for name, stored, condition in times
            if stored
        ]
        if not parts:
            return []
        asked = f"SELECT DISTINCT day FROM ({' UNION ALL '.join(parts)}) ORDER BY day DESC LIMIT {_DAYS}"
        return [
            date(1970, 1, 1) + timedelta(days=day) for (day,) in self.connection.execute(asked).fetchall()
        ]

    def report(self, subject: str, day: date | None = None) -> Fields:
        """Return the report of a stream or query on a day, the newest one if none is named."""
        days = self.days(subject)
        is_newest = day is None or not days or day >= days[0]
        shown = day or (days[0] if days else datetime.now(UTC).date())
        end_us = ((shown - date(1970, 1, 1)).days + 1) * DAY_US
        rules = rules_of(self.connection, self.layout.quality, subject, end_us)
        parts: Fields = {"stream": subject, "day": shown, "days": days, "rules": rules}
        parts["checked_us"] = max((rule["checked_us"] for rule in rules), default=None)
        if not subject.startswith(_QUERY):
            parts |= self._of_stream(subject, rules, end_us, day is None)
        parts["withheld"] = self._withheld.get(subject) if is_newest else None
        parts["notified"] = self._notified(subject)
        states = [rule["state"] for rule in rules] + ["fails"] * (not parts.get("is_balanced", True))
        parts["state"] = min(states, key=_STATES.index, default="unchecked")
        return parts

    def _of_stream(self, stream: str, rules: Sequence[Fields], end_us: int, is_of_now: bool) -> Fields:
        """Return what came in up to a time, and of the day before it; how new and how plausible it is."""
        stored = parquet_of(self.layout.ledger(stream))
        of_day = f"committed_at >= {moment(end_us - DAY_US)}"
        before = f"FROM {stored} WHERE committed_at < {moment(end_us)}"
        total: Fields = dict.fromkeys((*_COUNTS, "newest_us", "committed_us"))
        day = dict(total)
        if stored:
            sums = ", ".join(f"coalesce(sum({name}), 0)::BIGINT AS {name}" for name in _COUNTS)
            newest = "max(newest_us) AS newest_us, epoch_us(max(committed_at)) AS committed_us"
            (total,) = named_rows(self.connection, f"SELECT {sums}, {newest} {before}")
            (day,) = named_rows(self.connection, f"SELECT {sums}, {newest} {before} AND {of_day}")
        counts = {name: total[name] or 0 for name in _COUNTS}
        of_today = {name: day[name] or 0 for name in _COUNTS}
        # The newest report is of now, even if nothing has come for days; one of a day stays as it is.
        now_us = time.time_ns() // 1000
        now = () if is_of_now or now_us < end_us else ("the day ended",)
        now_us = min(now_us, end_us) if now else now_us
        return {
            "total": counts,
            "of_day": of_today,
            "is_balanced": is_balanced(counts),
            "newest_us": total["newest_us"],
            "committed_us": total["committed_us"],
            "complete": balance_sentence(counts, "in so far"),
            "arrived": "" if counts == of_today else balance_sentence(of_today, "in on this day"),
            "fresh": fresh_sentence(total["newest_us"], total["committed_us"], now_us, *now),
            "plausible": plausible_sentence(rules),
            "quarantine": self._quarantine(stream, before, of_day) if stored else [],
            "profile": profile_rows(self.layout, stream, end_us - DAY_US, self.units.get(stream, {})),
        }

    def _quarantine(self, stream: str, before: str, of_day: str) -> list[Fields]:
        """Return the reasons of rejected records, most of the day first, with masked examples of it."""
        reasons = named_rows(
            self.connection,
            "SELECT reason.key AS reason, sum(reason.value)::BIGINT AS records, "
            "coalesce(sum(reason.value) FILTER (is_of_day), 0)::BIGINT AS of_day FROM "
            f"(SELECT unnest(map_entries(reasons)) AS reason, {of_day} AS is_of_day {before}) "
            "GROUP BY ALL ORDER BY of_day DESC, records DESC, reason",
        )
        files = self._files(stream, f"SELECT batch {before} AND {of_day}") if reasons else {}
        return [row | _shown(row["reason"], files.get(row["reason"], [])) for row in reasons]

    def _files(self, stream: str, batches: str) -> Mapping[str, Sequence[Fields]]:
        """Return by reason the files with most rejected records in batches, each with its first records."""
        stored = parquet_of(self.layout.quarantine(stream))
        if stored is None:
            return {}
        one = "{'source_file': source_file, 'source_line': source_line, 'detail': detail, 'record': record[1:200]}"
        by_file = (
            f"SELECT reason, source_file, count(*) AS rows, min_by({one}, (batch, source_line), {_EXAMPLES}) AS first "
            f"FROM {stored} WHERE batch IN ({batches}) GROUP BY reason, source_file"
        )
        file = "{'source_file': source_file, 'rows': rows, 'first': first}"
        return dict(
            self.connection.execute(
                f"SELECT reason, max_by({file}, (rows, source_file), {_FILES}) FROM ({by_file}) GROUP BY reason"
            ).fetchall()
        )

    @cached_property
    def _withheld(self) -> Mapping[str, Fields]:
        """The streams whose newest state is not published, with since when and why."""
        try:
            with open_published(self.layout) as published:
                return {
                    row["stream"]: row for row in named_rows(published.connection, "SELECT * FROM withheld")
                }
        except NotPublished:
            return {}

    def _notified(self, subject: str) -> str:
        """Return who was notified of rules that no longer hold, and of those that hold again, as a sentence."""
        if self.address is None:
            return "Nobody is notified: [alerts] declares no address."
        host, store = urlsplit(self.address).hostname, store_of(self.layout)
        names = {"name": f"{RULES}{subject}"}
        through = store.rows(
            "SELECT batch FROM tidemark_delivered WHERE home = :home AND query = :name", **names
        )
        if not through:
            return f"Nobody was notified yet: tidemark web posts to {host} while it runs."
        ((refused,),) = store.rows(
            "SELECT count(*) FROM tidemark_refused WHERE home = :home AND query = :name", **names
        )
        waiting = f"; {refused:,} posts were refused and are repeated" if refused else ""
        return f"{host} was notified of every change up to {format_timestamp(through[0][0])} UTC{waiting}."


def _shown(reason: str, files: Sequence[Fields]) -> Fields:
    """Return the meaning of a reason, the files with most of its records, and masked examples from these."""
    first = [one for file in files for one in file["first"]][:_EXAMPLES]
    examples = [
        {"source_file": one["source_file"], "source_line": one["source_line"], "form": _form(one["record"])}
        for one in first
    ]
    says = reason_sentence(reason, first[0]["detail"] if first else None)
    return {
        "says": says,
        "worst": {file["source_file"]: file["rows"] for file in files},
        "examples": examples,
    }


def _form(record: bytes | None) -> str:
    return form_of((record or b"").decode("utf-8", "replace"), _FORM)


def _streams_first(subject: str) -> tuple[bool, str]:
    return subject.startswith(_QUERY), subject


def profile_rows(layout: Home, stream: str, day_us: int, units: Mapping[str, str]) -> list[Fields]:
    """Return a row for each column of the newest day with rows up to a day, and of the day itself, ``*``, first.

    Each has its figures of ``DAYS`` days, as ``trend``; none of a stream without a profile.
    """
    newest_us = profiles.last_day(layout, stream)
    if newest_us is None:
        return []
    end_us = min(newest_us, day_us) + DAY_US
    days = profiles.read_profile(layout, stream, end_us - DAYS * DAY_US, end_us)
    if not days:
        return []
    return [
        row
        | {
            "trend": [
                {"day": profiles.day_text(start_us), "value": _value(columns[row["column"]])}
                for start_us, columns in days.items()
                if row["column"] in columns
            ]
        }
        for row in profiles.profile_of(layout, stream, profiles.day_text(max(days)), units)
    ]


def _value(column: profiles.ColumnProfile) -> float | None:
    """Return the mean of numbers, the rows of the day itself, and of texts the share of rows with a value."""
    summary = column.summary
    if column.column == profiles.ROWS:
        return float(summary.rows)
    if summary.low is not None:
        return summary.mean
    return 1 - summary.missing / summary.rows if summary.rows else None
