"""The tables of ``tidemark status``: streams, the levels of each, bridges, and how each job last ended."""

from collections.abc import Mapping
from typing import Any

from lakehouse.cli.output import figures_cell, percent, print_line, print_table, time_text
from lakehouse.config.durations import format_duration

Facts = Mapping[str, Any]


def print_status(status: Facts) -> None:
    """Print what a status holds; a stream that is not published yet has only its waiting batches."""
    print_line(_headline(status))
    streams = status["streams"]
    if streams:
        print_table(_STREAM, [_stream(stream) for stream in streams], title="streams")
    if status["withheld"]:
        rows = [
            (one["stream"], one["since"], one["published_batch"], one["because"])
            for one in status["withheld"]
        ]
        headers = ("stream", "since", "published through batch", "because")
        print_table(headers, rows, title="withheld: the last published state stays until the checks pass")
    changes = [(s["stream"], c["batch"], c["change"]) for s in streams for c in s.get("schema_changes", [])]
    if changes:
        print_table(("stream", "batch", "file: change"), changes, title="columns that changed, latest first")
    if missing := [
        _missing(stream["stream"], column) for stream in streams for column in stream.get("missing", [])
    ]:
        print_table(
            ("stream", "column", "rows", "share", "note"), missing, title="accepted rows without a value"
        )
    if repeats := [
        (s["stream"], r["batch"], r["file"]) for s in streams for r in s.get("repeated_files", [])
    ]:
        print_table(
            ("stream", "batch", "file"), repeats, title="files met again under another name, latest first"
        )
    if standing := [(note["stream"], note["what"]) for note in status["standing"]]:
        print_table(("stream", "what"), standing, title="not read by the last run, until this is resolved")
    if lost := [(stream["stream"], stream["lost"]) for stream in streams if stream.get("lost")]:
        print_table(("stream", "messages"), lost, title="deleted before they were read")
    if aside := [(s["stream"], *a.values()) for s in streams for a in s["set_aside"]]:
        title = "set aside, in none of the counts; `tidemark requeue` takes it in again"
        print_table(("stream", "batch", "file or message", "error"), aside, title=title)
    if doubtful := [(stream["stream"], stream["unchecked"]) for stream in streams if stream.get("unchecked")]:
        title = "unchecked: too old to be compared when they came; answers over their times hold both cases"
        print_table(("stream", "rows that may repeat others"), doubtful, title=title)
    if doubts := [(doubt["query"], doubt["doubt"]) for doubt in status["doubts"]]:
        print_table(("query", "what"), doubts, title="results that are not final")
    if held := [_held(stream) for stream in streams if stream.get("ahead_us")]:
        title = "rows ahead of their stream: levels and retention do not follow them (docs/configuration.md)"
        print_table(("stream", "newest", "confirmed"), held, title=title)
    for stream in streams:
        if stream.get("levels"):
            title = f"levels of {stream['stream']}"
            print_table(_LEVEL, [_level(level) for level in stream["levels"]], title=title)
    if status["heartbeats"]:
        rows = [_heartbeat(heartbeat) for heartbeat in status["heartbeats"]]
        print_table(_HEARTBEAT, rows, title="bridges and collectors")
    if status["service"]:
        _print_service(status["service"])
    if status["jobs"]:
        print_table(_JOB, [_job(job) for job in status["jobs"]], title="jobs, as they last ended")


def age(seconds: float) -> str:
    """Return a time span in its two largest units.

    >>> age(3_725.4), age(59), age(200_000)
    ('1 h 2 min', '59 s', '2 d 7 h')
    """
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    unit = next((n for n, (_, size) in enumerate(units) if seconds >= size), len(units) - 1)
    (big, size), rest = units[unit], units[unit + 1 : unit + 2]
    whole, left = divmod(int(seconds), size)
    smaller = [f"{left // size} {name}" for name, size in rest if left // size]
    return " ".join([f"{whole} {big}", *smaller])


def _headline(status: Facts) -> str:
    published = status["published"]
    if published is None:
        return f"{status['home']}: nothing published yet; run `tidemark run`"
    kept = ", ".join(map(str, published["versions"]))
    size = f"{published['bytes'] / 1024**2:.1f} MiB"
    when = f"{published['published_at']} ({age(published['age_s'])} ago)"
    return f"{status['home']}: version {published['version']} of {when}, {size}; kept versions: {kept}"


_STREAM = (
    *(
        "stream",
        "rows",
        "late of accepted",
        "late by p50",
        "p95",
        "max",
        "rejected",
        "open",
        "closed",
        "duplicates",
        "revised",
    ),
    *("newest", "raw from", "nodes", "batches waiting", "lag", "open quarantine"),
)


def _stream(stream: Facts) -> tuple[Any, ...]:
    late = f"{stream['late']:,} ({percent(stream['late_share'])})" if "late" in stream else None
    lateness = (_span(stream.get(f"lateness_{part}_us")) for part in ("p50", "p95", "max"))
    counts = (stream.get(name) for name in ("quarantined", "open", "closed", "duplicates", "revised"))
    ages = (time_text(stream.get("newest_us")), time_text(stream.get("raw_from_us")))
    return (
        stream["stream"],
        stream.get("rows"),
        late,
        *lateness,
        *counts,
        *ages,
        stream.get("nodes"),
        stream["manifests"]["waiting"],
        stream["lag"],
        stream.get("quarantine") or "-",
    )


def _missing(stream: str, column: Facts) -> tuple[Any, ...]:
    missing, accepted, last = column["missing"], column["accepted"], column["last_with"]
    note = "all rows" if missing == accepted else f"no value since batch {last}" if last else "-"
    return (stream, column["column"], missing, percent(missing / accepted), note)


def _held(stream: Facts) -> tuple[str, str, str]:
    return stream["stream"], time_text(stream["newest_us"]), time_text(stream["confirmed_us"])


_LEVEL = ("level", "width", "kept for", "nodes", "from", "to", "rows entered")


def _level(level: Facts) -> tuple[Any, ...]:
    kept = format_duration(level["keep_us"])
    times = (time_text(level["from_us"]), time_text(level["to_us"]))
    return (
        level["level"],
        format_duration(level["width_us"]),
        kept,
        level["nodes"],
        *times,
        level["entered"],
    )


_HEARTBEAT = (
    "stream",
    "kind",
    "state",
    "last message",
    "messages",
    "repeated",
    "files",
    "waiting bytes",
    "note",
)


def _heartbeat(beat: Facts) -> tuple[Any, ...]:
    seen = (
        f"{beat['state']} for {age(beat['age_s'])}"
        if beat["state"] == "silent" and beat["age_s"]
        else beat["state"]
    )
    last = (beat["last_message"] or "-")[:19].replace("T", " ")
    counts = (beat[name] for name in ("messages", "repeated", "files", "waiting_bytes"))
    return (beat["stream"], beat["kind"], seen, last, *counts, beat["note"] or "-")


_FRESH = ("stream", "fresh within p50", "p95", "last", "of batches", "published through batch")


def _print_service(service: Facts) -> None:
    """Print who serves the home, how fresh its answers are, and which tasks fail."""
    print_line(f"\n{_served(service)}")
    streams = service.get("streams", {}).items()
    fresh = [(name, *_fresh(freshness)) for name, freshness in streams if freshness]
    if fresh:
        print_table(_FRESH, fresh, title="from the arrival of rows to the published answer")
    failing = [
        (s["job"], s["name"], s["failures"], s["error"]) for s in service.get("tasks", []) if s["error"]
    ]
    if failing:
        print_table(
            ("job", "stream", "times in a row", "error"), failing, title="tasks that fail, to be tried again"
        )


def _fresh(fresh: Facts) -> tuple[Any, ...]:
    seconds = (_seconds(fresh[f"{part}_s"]) for part in ("p50", "p95", "last"))
    return (*seconds, fresh["batches"], fresh["published_batch"])


def _served(service: Facts) -> str:
    beat = f"last heartbeat {age(service['age_s'])} ago"
    if service["is_alive"]:
        return f"served by process {service['pid']}, {service['state']}, {beat}"
    ended = "stopped" if service["state"] == "stopped" else "ENDED WITHOUT A STOP"
    return f"not served now: `tidemark serve` {ended}, {beat}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


_JOB = ("job", "stream", "state", "ended", "seconds", "figures or error")


def _job(job: Facts) -> tuple[Any, ...]:
    figures = figures_cell(job["figures"]) if job["ok"] else str(job["error"]).splitlines()[0]
    state = "ok" if job["ok"] else "failed"
    return (job["job"], job["stream"], state, job["ended"][:19].replace("T", " "), job["seconds"], figures)


def _span(time_us: int | None) -> str:
    if not time_us:
        return "-"
    return age(time_us / 1e6) if time_us >= 1_000_000 else f"{time_us // 1000} ms"
