"""Checks of a home for what stands still or goes wrong: each with what it found and how to mend it.

``HOME_CHECKS`` is the list: a check is a function of a ``HomeState`` that yields findings, none where all is well or
where it has nothing to look at. Adding one is writing the function and naming it there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.config.durations import format_duration
from lakehouse.storage.damaged import DamagedFile
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_extent
from lakehouse.storage.set_aside import read_set_aside

if TYPE_CHECKING:
    from lakehouse.settings import Settings

State = Literal["ok", "warning", "wrong"]
# Of files and messages that a check found, so many are named.
NAMED = 5
# Without a job for so long, a home stands still: schedules are daily or more often.
STILL = timedelta(days=2)
# Shares of received records in quarantine: some are dirt, half of them a wrong declaration.
SOME_QUARANTINED, MOST_QUARANTINED = 0.01, 0.5
# How far ahead of this machine a time may be where the stream says nothing of clocks.
AHEAD = timedelta(hours=1)


@dataclass(frozen=True)
class Finding:
    """One check: what was found, and what to do when it is not ok."""

    check: str
    state: State
    found: str
    fix: str = ""


@dataclass(frozen=True)
class HomeState:
    """Subject of checks: the home, its ``tidemark status``, and the settings where they can be read."""

    layout: Home
    status: dict[str, Any]
    settings: Settings | None
    now: datetime


Check = Callable[[HomeState], Iterator[Finding]]


def examine_home(layout: Home, settings: Settings | None, now: datetime | None = None) -> list[Finding]:
    """Run every check of a home; one finding says so where all is well."""
    from lakehouse.serving.status import status

    try:
        state = HomeState(layout, status(layout), settings, now or datetime.now(UTC))
    except Exception as error:
        return [Finding("status", "wrong", str(error), "do what the error says")]
    seen = [finding for check in HOME_CHECKS for finding in _examined(check, state)]
    streams = ", ".join(each["stream"] for each in state.status["streams"]) or "none yet"
    return seen or [Finding("streams", "ok", f"{streams}: the last jobs ended well, nothing stands still")]


def _examined(check: Check, home: HomeState) -> list[Finding]:
    """Run one check; a file that it cannot read is a finding, and the other checks go on."""
    try:
        return list(check(home))
    except (DamagedFile, OSError) as error:
        return [Finding(check.__name__.replace("_", " "), "wrong", str(error), "do what the error says")]


def failed_jobs(home: HomeState) -> Iterator[Finding]:
    """Jobs whose last run failed."""
    for job in home.status["jobs"]:
        if not job["ok"]:
            error = (str(job["error"]).splitlines() or [""])[0]
            fix = "mend what the error says, then `tidemark run`"
            yield Finding(f"{job['job']} of {job['stream']}", "wrong", f"failed {job['ended']}: {error}", fix)


def withheld_streams(home: HomeState) -> Iterator[Finding]:
    """Streams whose newest state is not published, because their checks fail."""
    for one in home.status["withheld"]:
        fix = "mend what the rule says, then `tidemark requeue` if records were rejected, and `tidemark run`"
        found = f"withheld since {one['since']} because {one['because']}"
        yield Finding(f"publish of {one['stream']}", "wrong", found, fix)


def still_jobs(home: HomeState) -> Iterator[Finding]:
    """A home in which no job has ended for long, and streams whose batches wait since."""
    jobs = home.status["jobs"]
    if not jobs:
        return
    last = max(datetime.fromisoformat(job["ended"]) for job in jobs)
    if home.now - last > STILL:
        days = (home.now - last).days
        waiting = {each["stream"]: each["manifests"]["waiting"] for each in home.status["streams"]}
        behind = ", ".join(f"{name}: {count} batches wait" for name, count in waiting.items() if count)
        seen = f"no job has ended for {days} days" + (f"; {behind}" if behind else "")
        yield Finding("last run", "warning", seen, "`tidemark run`, on a schedule, or `tidemark serve`")


def silent_processes(home: HomeState) -> Iterator[Finding]:
    """A service, bridge or collector that ended without a stop, failed or says nothing more."""
    service = home.status["service"]
    if service and not service["is_alive"] and service["state"] != "stopped":
        seen = f"process {service['pid']} ended without a stop, last heartbeat {service['at']}"
        yield Finding("service", "wrong", seen, "start `tidemark serve` again; its log says why it ended")
    for beat in home.status["heartbeats"]:
        if beat["state"] in ("silent", "failed", "unknown"):
            seen = f"{beat['state']} since {beat['at']} {beat['note']}".strip()
            fix = f"start `tidemark {beat['kind']}` again; its log says why it ended"
            yield Finding(f"{beat['kind']} of {beat['stream']}", "wrong", seen, fix)


def quarantined_shares(home: HomeState) -> Iterator[Finding]:
    """Streams of which more than a hundredth of what was received is open in quarantine."""
    for stream in home.status["streams"]:
        received, reasons = stream.get("received", 0), stream.get("quarantine", {})
        share = sum(reasons.values()) / received if received else 0.0
        if share > SOME_QUARANTINED:
            state: State = "wrong" if share > MOST_QUARANTINED else "warning"
            counts = ", ".join(f"{reason} {records:,}" for reason, records in reasons.items())
            seen = f"{share:.1%} of {received:,} records received are open: {counts}"
            fix = f"mend the declaration or the source, then `tidemark requeue {stream['stream']}`"
            yield Finding(f"quarantine of {stream['stream']}", state, seen, fix)


def missing_files(home: HomeState) -> Iterator[Finding]:
    """Landed files that a batch has to read and that are gone."""
    from lakehouse.config.landing import located
    from lakehouse.config.store_address import is_remote
    from lakehouse.ingest.sources.manifest_store import ManifestStore

    declared = home.settings.streams if home.settings else {}
    for stream in (each["stream"] for each in home.status["streams"]):
        if stream not in declared:
            continue
        pattern = declared[stream].source.path
        store = ManifestStore(home.layout.manifests(stream))
        waiting = store.behind(read_extent(home.layout, stream).batch)
        names = (file.path for manifest in waiting if not manifest.error for file in manifest.files)
        paths = (located(pattern, name) for name in names)
        gone = [path for path in paths if not is_remote(path) and not Path(path).exists()]
        if gone:
            fix = "restore them before the next run, which rejects them as unreadable_file otherwise"
            yield Finding(f"files of {stream}", "warning", f"gone before they were read: {_some(gone)}", fix)


def clocks(home: HomeState) -> Iterator[Finding]:
    """Event times ahead of this machine's clock, and a clock that stands before the last run."""
    last = max((datetime.fromisoformat(job["ended"]) for job in home.status["jobs"]), default=home.now)
    if last > home.now + timedelta(minutes=1):
        seen = f"{home.now.isoformat(timespec='seconds')}, but the last job ended {last.isoformat(timespec='seconds')}"
        yield Finding("clock", "wrong", seen, "set this machine's clock, such as by NTP")
    for stream in home.status["streams"]:
        newest_us = stream.get("newest_us")
        ahead = newest_us and newest_us / 1e6 - home.now.timestamp()
        if ahead and ahead > _ahead(home, stream["stream"]).total_seconds():
            seen = f"the newest row is dated {stream['newest'] or newest_us}, {_span(ahead)} ahead of this machine"
            fix = (
                f"look for a wrong clock or unit; `tidemark retract {stream['stream']}` takes such rows out, "
                "event_time_bounds and clock_bounds keep them out"
            )
            yield Finding(f"clock of {stream['stream']}", "warning", seen, fix)


def rows_ahead(home: HomeState) -> Iterator[Finding]:
    """Rows ahead of their stream that were quarantined, or are held: retention does not follow them."""
    for stream in home.status["streams"]:
        name, rejected = stream["stream"], stream.get("quarantine", {}).get("clock", 0)
        if rejected:
            fix = f"mend the clock, or declare a larger clock_bounds and `tidemark requeue {name} --reason clock`"
            yield Finding(
                f"rows ahead of {name}", "warning", f"{rejected:,} records in quarantine: clock", fix
            )
        if stream.get("ahead_us") and stream["rows"] > 2:
            found = f"the newest row is of {stream['newest']}, confirmed is {stream['confirmed']}"
            fix = f"another batch confirms it if it is right; else `tidemark retract {name}` takes such rows out"
            yield Finding(f"rows ahead of {name}", "warning", found, fix)


def set_aside(home: HomeState) -> Iterator[Finding]:
    """Files and messages that were set aside since their batches failed again and again."""
    aside = read_set_aside(home.layout)
    for stream in dict.fromkeys(each.stream for each in aside):
        seen = [f"{each.place} ({each.error})" for each in aside if each.stream == stream]
        fix = f"mend what the error says, then `tidemark requeue {stream} --reason set_aside`"
        yield Finding(f"set aside of {stream}", "warning", _some(seen), fix)


def faulty_queries(home: HomeState) -> Iterator[Finding]:
    """Queries whose files are wrong; the others run."""
    for name, problems in (home.settings.faulty if home.settings else {}).items():
        seen = _some([str(problem) for problem in problems])
        yield Finding(f"query {name}", "wrong", seen, "mend its file; the other queries run meanwhile")


def unread_files(home: HomeState) -> Iterator[Finding]:
    """Files that the last ingest passed over, as their content changed after they were read."""
    from lakehouse.ingest.sources.unmatched import CANNOT

    said = home.status["standing"]
    for stream in dict.fromkeys(each["stream"] for each in said):
        of_stream = [each["what"] for each in said if each["stream"] == stream]
        # What is about folders is looked at again as it is now.
        found = [what for what in of_stream if CANNOT not in what and not what.startswith("no file matches")]
        if found:
            fix = "land the new content under a new name, then `tidemark run`"
            yield Finding(f"files of {stream}", "warning", _some(found), fix)


def empty_landings(home: HomeState) -> Iterator[Finding]:
    """Streams with folders that cannot be listed, or that have read nothing and whose path no file matches now."""
    from lakehouse.ingest.sources.files import matching
    from lakehouse.ingest.sources.unmatched import no_match, unlisted
    from lakehouse.storage.stores.store_access import StoreUnavailable

    for name, stream in (home.settings.streams if home.settings else {}).items():
        if stream.source.kind == "kafka":
            continue
        if closed := list(unlisted(stream.source)):
            fix = "give the user that runs Tidemark the rights to read and to enter them"
            yield Finding(f"folders of {name}", "warning", _some(closed), fix)
        if closed or read_extent(home.layout, name).batch:
            continue
        try:
            if next(matching(stream.source), None) is None:
                fix = "mend source.path, or land files"
                yield Finding(f"path of {name}", "warning", no_match(stream.source), fix)
        except StoreUnavailable:
            # Said of the store already.
            continue


def unread_topics(home: HomeState) -> Iterator[Finding]:
    """Streams whose broker does not answer now, or lacks a topic of theirs."""
    from lakehouse.ingest.sources.kafka import why_unread

    for name, stream in (home.settings.streams if home.settings else {}).items():
        if stream.source.kind == "kafka" and (found := why_unread(stream.source)):
            yield Finding(f"topics of {name}", "wrong", found, "mend what it says, then `tidemark run`")


HOME_CHECKS: Sequence[Check] = (
    failed_jobs,
    withheld_streams,
    still_jobs,
    silent_processes,
    quarantined_shares,
    missing_files,
    clocks,
    rows_ahead,
    set_aside,
    faulty_queries,
    unread_files,
    empty_landings,
    unread_topics,
)


def _some(seen: Sequence[str]) -> str:
    more = f" and {len(seen) - NAMED} more" if len(seen) > NAMED else ""
    return "; ".join(islice(seen, NAMED)) + more


def _ahead(home: HomeState, stream: str) -> timedelta:
    declared = home.settings.streams.get(stream) if home.settings else None
    bounds = declared.clock_bounds if declared else None
    return timedelta(microseconds=bounds.ahead) if bounds else AHEAD


def _span(seconds: float) -> str:
    """Return a time span in one unit, such as ``26723d``."""
    unit = next(size for size in (86_400, 3_600, 60, 1) if seconds >= size or size == 1)
    return format_duration(int(seconds // unit) * unit * 1_000_000)
