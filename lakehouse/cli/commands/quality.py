"""``tidemark quality``: reports on the quality of streams, in the terminal or as a page that can be sent."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from lakehouse.cli.options import AsJson, Globals, WrongUsage, globals_of
from lakehouse.cli.output import print_json, print_line, print_table, time_text

Facts = Mapping[str, Any]
_RUN = dict(zip(("holds", "rejects", "warns", "fails"), "●◆▲✕", strict=True))
_SHOWN = ("complete", "arrived", "fresh", "plausible", "notified")

EXAMPLES = (
    "tidemark quality",
    "tidemark quality telemetry --day 2026-01-01",
    "tidemark quality --html quality.html",
)


def quality(
    context: typer.Context,
    stream: Annotated[str | None, typer.Argument(help="A stream, or query-NAME [default: all].")] = None,
    day: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="The day of the report, UTC [default: the newest]."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as one page, to print or send.")] = None,
    as_json: AsJson = False,
) -> None:
    """Report whether streams are complete, fresh, plausible.

    Shows what came in and what became of it, each rule in a sentence with its last thirty runs and the worst sources,
    rejected records by reason, and what is withheld; the page also what values look like. Records are shown as their
    form only. A day is one on which rows
    came in or checks ran. The page of --html needs nothing but a browser. Exit code 1 if a rule fails; one that warns
    does not. No JVM is started.
    """
    reports = _reports(globals_of(context), stream, day.date() if day else None)
    if html is not None:
        from lakehouse.web.quality.page import Page

        title = f"Quality of {stream}" if stream else "Quality of all streams"
        html.write_text(Page(is_file=True).overview(title, reports), encoding="utf-8")
    if as_json:
        print_json([report | ({"html": str(html)} if html else {}) for report in reports])
    elif html is not None:
        print(f"wrote {html}")
    else:
        print_reports(reports, is_whole=stream is not None)
    if any(report["state"] == "fails" for report in reports):
        raise typer.Exit(1)


def _reports(options: Globals, stream: str | None, day: date | None) -> list[dict[str, Any]]:
    from lakehouse.config.problems import nearest
    from lakehouse.serving.quality.report import Asked
    from lakehouse.serving.table_reader import connected

    home, settings = options.opened()
    with connected(home.tables) as connection:
        url, units = (settings.alerts.url, settings.time_units) if settings else (None, {})
        asked = Asked(home, connection, url, units)
        known = asked.subjects()
        if stream is not None and stream not in known:
            raise WrongUsage(
                f"no stream {stream!r} has come in or was checked; expected {nearest(stream, known)}"
            )
        return [asked.report(subject, day) for subject in ([stream] if stream else known)]


def print_reports(reports: Sequence[Facts], is_whole: bool) -> None:
    """Print a line for each report, and the rules of any stream that do not hold; or one report as a whole."""
    if not reports:
        print_line("nothing has come in yet")
        return
    names = ("stream", "day", "state", "rules that hold", "plausible", "checked")
    print_table(names, [_line(report) for report in reports], title="quality")
    for report in reports:
        _print_report(report, is_whole)


def _line(report: Facts) -> tuple[Any, ...]:
    rules = report["rules"]
    held = f"{sum(rule['state'] in ('holds', 'rejects') for rule in rules)} of {len(rules)}"
    checked = time_text(report["checked_us"])
    return report["stream"], report["day"], report["state"], held, report.get("plausible"), checked


def _print_report(report: Facts, is_whole: bool) -> None:
    withheld = report["withheld"]
    if withheld:
        since = time_text(withheld["since_us"])
        print_line(f"\n{report['stream']} is withheld since {since} UTC: {withheld['because']}")
    if is_whole:
        print_line("\n" + "\n".join(report[part] for part in _SHOWN if report.get(part)))
    rules = [_rule(rule) for rule in report["rules"] if is_whole or rule["state"] in ("fails", "warns")]
    if rules:
        print_table(
            ("state", "rule", "observed", "worst", "runs"), rules, title=f"rules of {report['stream']}"
        )
    if is_whole and report.get("quarantine"):
        rows = [(one["says"], one["reason"], one["of_day"], one["records"]) for one in report["quarantine"]]
        print_table(("why", "reason", "on this day", "so far"), rows, title="rejected records")


def _rule(rule: Facts) -> tuple[str, ...]:
    worst = "; ".join(f"{source}: {rows:,}" for source, rows in rule["worst"].items())
    runs = "".join(_RUN[run["state"]] for run in rule["runs"])
    return rule["state"], rule["says"], rule["seen"] or "-", worst or "-", runs
