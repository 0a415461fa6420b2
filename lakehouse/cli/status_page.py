"""The tables of ``tidemark status``: streams, the levels of each, and how each job last ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.catalog.durations import format_duration
from lakehouse.cli.output import cell, moment, print_table

Facts = Mapping[str, Any]


def print_status(found: Facts) -> None:
    """Print what a status holds; a stream that is not published yet has only its waiting batches."""
    print(_headline(found))
    streams = found["streams"]
    if streams:
        print_table(_STREAM, [_stream(stream) for stream in streams], title="streams")
    changes = [(s["stream"], c["batch"], c["change"]) for s in streams for c in s.get("schema_changes", [])]
    if changes:
        print_table(("stream", "batch", "file: change"), changes, title="columns that changed, latest first")
    for stream in streams:
        if stream.get("levels"):
            title = f"levels of {stream['stream']}"
            print_table(_LEVEL, [_level(level) for level in stream["levels"]], title=title)
    if found["jobs"]:
        print_table(_JOB, [_job(job) for job in found["jobs"]], title="jobs, as they last ended")


def age(seconds: float) -> str:
    """Return a time span in its two largest units.

    >>> age(3_725.4), age(59), age(200_000)
    ('1 h 2 min', '59 s', '2 d 7 h')
    """
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    place = next((n for n, (_, size) in enumerate(units) if seconds >= size), len(units) - 1)
    (big, size), rest = units[place], units[place + 1 : place + 2]
    whole, left = divmod(int(seconds), size)
    smaller = [f"{left // size} {name}" for name, size in rest if left // size]
    return " ".join([f"{whole} {big}", *smaller])


def _headline(found: Facts) -> str:
    published = found["published"]
    if published is None:
        return f"{found['home']}: nothing published yet; run `tidemark run`"
    kept = ", ".join(map(str, published["versions"]))
    size = f"{published['bytes'] / 1024**2:.1f} MiB"
    when = f"{published['published_at']} ({age(published['age_s'])} ago)"
    return f"{found['home']}: version {published['version']} of {when}, {size}; kept versions: {kept}"


_STREAM = (
    *("stream", "rows", "late", "late by p50", "p95", "max", "quarantined", "duplicates"),
    *("newest", "raw from", "nodes", "batches waiting", "open quarantine"),
)


def _stream(stream: Facts) -> tuple[Any, ...]:
    late = f"{stream['late']:,} ({stream['late_share']:.1%})" if "late" in stream else None
    lateness = (_span(stream.get(f"lateness_{part}_us")) for part in ("p50", "p95", "max"))
    counts = (stream.get("quarantined"), stream.get("duplicates"))
    ages = (moment(stream.get("newest_us")), moment(stream.get("raw_from_us")))
    return (
        stream["stream"],
        stream.get("rows"),
        late,
        *lateness,
        *counts,
        *ages,
        stream.get("nodes"),
        stream["landing"]["waiting"],
        stream.get("quarantine") or "-",
    )


_LEVEL = ("level", "width", "kept for", "nodes", "from", "to", "rows entered")


def _level(level: Facts) -> tuple[Any, ...]:
    kept = format_duration(level["keep_us"])
    times = (moment(level["from_us"]), moment(level["to_us"]))
    return (
        level["level"],
        format_duration(level["width_us"]),
        kept,
        level["nodes"],
        *times,
        level["entered"],
    )


_JOB = ("job", "stream", "state", "ended", "seconds", "figures or error")


def _job(job: Facts) -> tuple[Any, ...]:
    told = cell(job["figures"]) if job["ok"] else str(job["error"]).splitlines()[0]
    state = "ok" if job["ok"] else "failed"
    return (job["job"], job["stream"], state, job["ended"][:19].replace("T", " "), job["seconds"], told)


def _span(time_us: int | None) -> str:
    if not time_us:
        return "-"
    return age(time_us / 1e6) if time_us >= 1_000_000 else f"{time_us // 1000} ms"
