"""The stream of writers whose steps interleave: what lands, what a writer may do, and what must be there then."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.readings import declared

if TYPE_CHECKING:
    from lakehouse.storage.layout import Home

STREAM, OWN, LAST_FIRST = "readings", 8, 4
# A whole minute; each file has one of its own, in rows of five seconds.
T0, MINUTE_S, STEP_S, TOP_LEVEL = 1_600_000_020, 60, 5, 3
US = 1_000_000
# The column that is 1 in files that are to be taken out.
WRONG = "count"
# Time in seconds, device, temperature.
Row = tuple[int, str, float]
Content = dict[str, Any]
# Of each minute how many rows it has, and the sum of their temperatures.
Minutes = dict[int, tuple[float, float]]


@dataclass
class Landed:
    """What has landed in a lakehouse, by number of file, and so what its tables must hold.

    ``publishes``: whether versions are published, of which the first starts Spark.
    """

    config: Path
    publishes: bool
    files: int = 0

    def path(self, number: int) -> Path:
        """Where a file is."""
        return self.config.parent / "landing" / f"{number}.ndjson"

    def land(self) -> None:
        """Land one more file, whole at once: a line is no record, and one comes twice."""
        rows = [*self.rows(self.files), *self.rows(self.files)[:1]]
        more = {WRONG: int(self.is_wrong(self.files))}
        said = [json.dumps(dict(zip(("ts", "device", "temp"), row, strict=True)) | more) for row in rows]
        whole = self.config.parent / "landing.tmp"
        whole.write_text("\n".join([*said, f"no record {self.files}"]) + "\n", encoding="utf-8")
        self.path(self.files).parent.mkdir(exist_ok=True)
        whole.rename(self.path(self.files))
        self.files += 1

    def rows(self, number: int) -> list[Row]:
        """Return the rows of a file; the last of an even one say what the first of the file before should have."""
        own = [self._row(number, place, 0.0) for place in range(OWN)]
        is_right = number > 0 and not self.is_wrong(number)
        return own + [self._row(number - 1, place, 0.25) for place in range(2 * is_right)]

    @staticmethod
    def is_wrong(number: int) -> bool:
        """Whether a file is to be taken out."""
        return number % 2 == 1

    def faults(self, found: Content, are_out: bool) -> Iterator[str]:
        """Say what tables hold too much, too little or miscounted; wrong files ``are_out`` by then, or not."""
        allowed: dict[tuple[int, str], set[float]] = {}
        for number in range(self.files):
            for ts, device, temp in () if are_out and self.is_wrong(number) else self.rows(number):
                allowed.setdefault((ts, device), set()).add(temp)
        raw = [(event // US, device, temp) for event, device, temp in found["raw"]]
        held = Counter(row[:2] for row in raw)
        for said, rows in (("lost", allowed.keys() - held), ("not to be there", held.keys() - allowed)):
            yield from [f"{said}: {sorted(rows)}"] if rows else []
        yield from (f"{count} times there: {row}" for row, count in held.items() if count > 1)
        yield from (f"another content: {row}" for row in raw if row[2] not in allowed.get(row[:2], [row[2]]))
        yield from self._miscounted(found)
        by_minute: dict[int, list[float]] = {}
        for ts, _, temp in raw:
            by_minute.setdefault((ts - T0) // MINUTE_S, []).append(temp)
        for where, told in found["minutes"].items():
            for minute in range(self.files):
                expected = (len(by_minute.get(minute, [])), sum(by_minute.get(minute, [])))
                if told.get(minute, (0, 0)) != expected:
                    yield f"minute {minute} is {told.get(minute)} {where}, not {expected}"

    def _miscounted(self, found: Content) -> Iterator[str]:
        ledger, lines = found["ledger"], sum(len(self.rows(number)) + 2 for number in range(self.files))
        told = {
            "lines landed": (ledger["received"], lines),
            "rows judged": (
                ledger["received"] + ledger["requeued"],
                ledger["accepted"] + ledger["quarantined"] + ledger["duplicates"],
            ),
            "rows in raw": (len(found["raw"]), ledger["accepted"] - found["removed"]),
            "records in quarantine": (found["quarantine"], ledger["quarantined"]),
        }
        yield from (f"{what}: {one}, not {other}" for what, (one, other) in told.items() if one != other)

    @staticmethod
    def _row(number: int, place: int, more: float) -> Row:
        return T0 + MINUTE_S * number + STEP_S * place, f"d{place % 3}", number % 40 + place / 4 + more


def base(folder: Path, publishes: bool) -> Landed:
    """Make a lakehouse that has taken in some files, each by a batch of its own."""
    folder.mkdir(parents=True)
    landed = Landed(folder / "tidemark.toml", publishes)
    landed.config.write_text(declared(), encoding="utf-8")
    for _ in range(LAST_FIRST):
        landed.land()
        for operation in ("append", "build"):
            OPERATIONS[operation](landed)
    if publishes:
        OPERATIONS["publish"](landed)
    return landed


def settled(landed: Landed, with_corrections: bool) -> Content:
    """Bring a lakehouse to its end, alone: all is taken in, wrong files are out, conflicts judged again."""
    OPERATIONS["append"](landed)
    if with_corrections:
        CORRECTIONS["retract"](landed, None)
        CORRECTIONS["requeue"](landed)
    for operation in ("build", "maintain", *(["publish"] if landed.publishes else [])):
        OPERATIONS[operation](landed)
    return content(landed)


def content(landed: Landed) -> Content:
    """Return what the tables and the published version hold."""
    from lakehouse.settings import load_settings
    from lakehouse.storage.corrections import RETRACT, read_corrections, removed
    from lakehouse.storage.tables.table_log import read_columns, read_rows

    layout = load_settings(landed.config).layout
    ledger = read_rows(layout.ledger(STREAM))
    words = ("received", "requeued", "accepted", "quarantined", "duplicates")
    return {
        "raw": read_columns(layout.raw(STREAM), ("event_us", "device", "temp")),
        "quarantine": len(read_rows(layout.quarantine(STREAM))),
        "ledger": {word: sum(row[word] or 0 for row in ledger) for word in words},
        "removed": removed(read_corrections(layout, STREAM), [RETRACT]),
        "minutes": _built(layout) | (_published(layout, landed.files) if landed.publishes else {}),
    }


def _built(layout: Home) -> dict[str, Minutes]:
    """Return what the nodes of whole minutes hold, by grouping."""
    from lakehouse.storage.tables.table_log import read_columns

    found: dict[str, Minutes] = {}
    columns = ("level", "grouping", "start_us", "rows", "temp__sum")
    for level, grouping, start, rows, total in read_columns(layout.rollup(STREAM), columns):
        if level == TOP_LEVEL and grouping >= 0:
            minutes = found.setdefault(f"in nodes of grouping {grouping}", {})
            minute = (start // US - T0) // MINUTE_S
            known = minutes.get(minute, (0, 0))
            minutes[minute] = (known[0] + rows, known[1] + (total or 0))
    return found


def _published(layout: Home, minutes: int) -> dict[str, Minutes]:
    """Return what a version says of each minute."""
    from lakehouse.serving.sandbox.sandbox import open_published

    ends = [datetime.fromtimestamp(T0 + MINUTE_S * minute, UTC).isoformat() for minute in (0, minutes)]
    with open_published(layout) as published:
        counts, sums = (
            published.connection.execute(
                f"SELECT value FROM range_series('{STREAM}', 'temp', '{ends[0]}', '{ends[1]}', {minutes}, "
                f"aggregate := '{aggregate}') ORDER BY bucket"
            ).fetchall()
            for aggregate in ("count", "sum")
        )
    told = zip(counts, sums, strict=True)
    return {"as published": {minute: (count, total or 0) for minute, ((count,), (total,)) in enumerate(told)}}


def _job(name: str, landed: Landed, **told: Any) -> None:
    from lakehouse.settings import load_settings
    from lakehouse.spark.session import build_session

    settings = load_settings(landed.config)
    import_module(f"jobs.{name}").run(settings, build_session(settings), STREAM, **told)


def _published_anew(landed: Landed) -> None:
    from jobs import publish
    from lakehouse.settings import load_settings
    from lakehouse.spark.session import build_session

    settings = load_settings(landed.config)
    publish.run(settings, build_session(settings), unchecked=True)


def _taken_out(landed: Landed, number: int | None) -> None:
    """Take a wrong file out, or all of them."""
    from lakehouse.corrections.retract import Wrong

    wrong = Wrong(where={WRONG: "1"}) if number is None else Wrong(file=str(landed.path(number)))
    _job("retract", landed, wrong=wrong, by="the harness", why="it is wrong")


def _built_again(landed: Landed, number: int) -> None:
    """Build all nodes again, or those of a file's minute."""
    from jobs import build_rollups
    from lakehouse.settings import load_settings
    from lakehouse.spark.session import build_session

    settings, start = load_settings(landed.config), (T0 + MINUTE_S * number) * US
    ends = (start, start + MINUTE_S * US) if number % 4 else (None, None)
    build_rollups.rebuild(settings, build_session(settings), STREAM, *ends)


def _conflicts_again(landed: Landed) -> None:
    _job("requeue", landed, reasons=("conflict",))


# What a writer does; some of it to a file that has landed.
OPERATIONS: dict[str, Callable[..., None]] = {
    "append": partial(_job, "ingest"),
    "build": partial(_job, "build_rollups"),
    "maintain": partial(_job, "maintain"),
    "merge": partial(_job, "merge_raw"),
    "publish": _published_anew,
}
CORRECTIONS: dict[str, Callable[..., None]] = {
    "retract": _taken_out,
    "rebuild": _built_again,
    "requeue": _conflicts_again,
}
# The tables that each holds a lease of.
LEASES: dict[str, frozenset[str]] = {
    "append": frozenset({"raw"}),
    "build": frozenset({"rollup"}),
    "maintain": frozenset({"raw", "rollup", "files of raw"}),
    "merge": frozenset({"files of raw"}),
    "publish": frozenset({"serving", "rollup"}),
    "retract": frozenset({"raw", "rollup", "files of raw"}),
    "rebuild": frozenset({"raw", "rollup"}),
    "requeue": frozenset({"raw"}),
}
