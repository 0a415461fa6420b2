"""Reports on quality as text: a table of all streams, or one stream with its rules and rejected records."""

from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse.cli.output import print_line, print_table, time_text

Facts = Mapping[str, Any]
_RUN = {"holds": "●", "rejects": "◆", "warns": "▲", "fails": "✕"}
_SHOWN = ("complete", "arrived", "fresh", "plausible", "notified")


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
