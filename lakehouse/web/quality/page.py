"""Report on quality as a page: an overview of lights, and a section for each stream; without scripts, for any browser.

Over HTTP a page is of one stream, with links; as a file it has them all and needs nothing else, so that it can be sent.
Whatever comes from data is escaped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

from lakehouse.config.durations import format_timestamp
from lakehouse.serving.quality.verdicts import RUNS
from lakehouse.storage.profiles import with_times
from lakehouse.web.assets import header, style

_STEP, _HEIGHT, _STUB = 6, 26, 4

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'none'"
)
# A mark beside each word, so that no light is told by its colour.
MARKS = {"holds": "●", "warns": "▲", "rejects": "◆", "fails": "✕", "unchecked": "○"}
CLASSES = {"holds": "good", "warns": "warn", "rejects": "warn", "fails": "bad", "unchecked": "note"}
# Of a key so many values are shown.
_FREQUENT = 3
Fields = dict[str, Any]


@dataclass(frozen=True)
class Page:
    """A page of reports; ``is_file``: it stands alone, so that nothing on it leads to the server."""

    is_file: bool = False

    def overview(self, title: str, reports: Sequence[Fields]) -> str:
        """Return the page of all streams: a table of lights, and of a file each report below it."""
        names = ("stream", "state", "is it complete?", "is it fresh?", "is it plausible?", "rules")
        rows = [self._lights(report) for report in reports]
        body = f"<h1>{escape(title)}</h1>{_table('Streams and queries', names, rows)}{_LEGEND}"
        if self.is_file:
            body += "".join(map(self._section, reports)) + _DATA_DOCS
        else:
            body += '<p><a href="/reports/index.html">Data Docs: every check as Great Expectations shows it</a></p>'
        return self._whole(title, body)

    def stream(self, report: Fields) -> str:
        """Return the page of one stream or query on a day."""
        title = f"Quality of {report['stream']} on {report['day']}"
        return self._whole(title, self._section(report, level=1) + self._links(report))

    def _whole(self, title: str, body: str) -> str:
        top = "" if self.is_file else header("/quality")
        icon = "" if self.is_file else '<link rel="icon" href="/page/icon.svg">'
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
            f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title>{icon}'
            f'<style>{style()}</style></head><body>{top}<main class="report" id="main">{body}</main></body></html>'
        )

    def _lights(self, report: Fields) -> Sequence[str]:
        name = escape(report["stream"])
        address = (
            f"#{quote(report['stream'])}" if self.is_file else f"/quality/{quote(report['stream'], safe='')}"
        )
        shown = [report.get(part, "-") for part in ("complete", "fresh", "plausible")]
        held = sum(rule["state"] in ("holds", "rejects") for rule in report["rules"])
        rules = f"{held} of {len(report['rules'])} hold" if report["rules"] else "never checked"
        return (f'<a href="{address}">{name}</a>', light(report["state"]), *map(escape, shown), rules)

    def _section(self, report: Fields, level: int = 2) -> str:
        def part(heading: str, *content: str) -> str:
            return f"<h{level + 1}>{heading}</h{level + 1}>{''.join(content)}"

        own, platform = (
            [one for one in report["rules"] if one["is_own"] is is_own] for is_own in (True, False)
        )
        parts = [
            _heading(report, level),
            _published(report),
            f'<p class="note">{escape(report["notified"])}</p>',
        ]
        if "complete" in report:
            text = {
                name: f"<p>{escape(report[name])}</p>"
                for name in ("complete", "arrived", "fresh", "plausible")
            }
            parts += [part("Is it complete?", text["complete"], text["arrived"] if report["arrived"] else "")]
            parts += [part("Is it fresh?", text["fresh"]), part("Is it plausible?", text["plausible"])]
            parts += [part("Rules of this stream", _rules("Rules of this stream", own))] if own else []
            parts += (
                [part("What do its values look like?", _profile(report["profile"]))]
                if report["profile"]
                else []
            )
            parts += [part("Rejected records", _quarantine(report["quarantine"]))]
        parts.append(part("Rules of the platform", _platform(platform)))
        return f"<section>{''.join(parts)}</section>"

    def _links(self, report: Fields) -> str:
        name, days = quote(report["stream"], safe=""), list(report["days"])
        others = [
            f'<a href="/quality/{name}/{day}"{" aria-current=page" * (day == report["day"])}>{day}</a>'
            for day in days
        ]
        links = ['<a href="/reports/index.html">Data Docs</a>', '<a href="/quality">all streams</a>']
        if "complete" in report:
            links.append(f'<a href="/page/?view=quarantine&amp;stream={name}">rejected records</a>')
        more = f"<p>Days: {' '.join(others)}</p>" if others else ""
        return f'<nav aria-label="More" class="more">{more}<p>{" · ".join(links)}</p></nav>'


def light(state: str) -> str:
    """Return a state as a mark and a word."""
    return f'<span class="{CLASSES[state]}">{MARKS[state]} {_WORDS[state]}</span>'


_WORDS = {
    "holds": "holds",
    "warns": "warns",
    "rejects": "rejects rows",
    "fails": "fails",
    "unchecked": "not checked",
}
_LEGEND = (
    '<p class="note">● holds · ▲ warns: a rule is broken, and the data are published · ◆ rejects rows: they are in '
    "quarantine · ✕ fails: the newest data of a stream are withheld · ○ not checked. Times are in UTC.</p>"
)


_DATA_DOCS = (
    '<p class="note">Data Docs, with every check as Great Expectations shows it, are '
    "<code>reports/site/index.html</code> of the home.</p>"
)


def _heading(report: Fields, level: int) -> str:
    title = f"{escape(report['stream'])} on {report['day']}: {light(report['state'])}"
    return f'<h{level} id="{escape(quote(report["stream"]))}">{title}</h{level}>'


def _published(report: Fields) -> str:
    withheld = report["withheld"]
    checked = report["checked_us"]
    when = f"Last checked {format_timestamp(checked)} UTC." if checked else "No check has run yet."
    if withheld is None:
        return f"<p>{when}</p>"
    batch = withheld["published_batch"]
    through = "It was never published." if batch is None else f"What is published is as of batch {batch}."
    since = f"{format_timestamp(withheld['since_us'])} UTC"
    return f'<p class="bad">Withheld since {since}: {escape(withheld["because"])} {through}</p><p>{when}</p>'


def _rules(caption: str, rules: Sequence[Fields]) -> str:
    if not rules:
        return '<p class="note">none was checked</p>'
    names = ("state", "rule", "last thirty runs, the newest at the right")
    return _table(
        caption, names, [(light(rule["state"]), _sentence(rule), trend(rule["runs"])) for rule in rules]
    )


def _platform(rules: Sequence[Fields]) -> str:
    """Return the rules, behind one line while all hold: a reader is concerned with those that do not."""
    broken, shown = sum(rule["state"] != "holds" for rule in rules), _rules("Rules of the platform", rules)
    if broken or not rules:
        return shown
    held = f"All {len(rules):,} hold" if len(rules) > 1 else "The only rule holds"
    says = f"{held}: what came in, what is kept and what is summed up agree."
    return f"<details><summary>{says}</summary>{shown}</details>"


def _sentence(rule: Fields) -> str:
    parts = [f"{escape(rule['says'])} <small><code>{escape(rule['rule'])}</code></small>"]
    if rule["seen"]:
        parts.append(escape(rule["seen"]))
    if rule["state"] in ("fails", "warns"):
        longer = ", or longer" if rule["since_us"] == rule["runs"][0]["at_us"] else ""
        parts.append(f"broken since {format_timestamp(rule['since_us'])} UTC{longer}")
    if rule["worst"]:
        parts.append(f"worst sources: {_worst(rule['worst'])}")
    return "<br>".join(parts)


def _worst(sources: Mapping[str, int]) -> str:
    return "; ".join(
        f"{escape(source or 'none')}: {rows:,} row{'s' * (rows != 1)}" for source, rows in sources.items()
    )


def _quarantine(reasons: Sequence[Fields]) -> str:
    if not reasons:
        return '<p class="good">No record was ever rejected.</p>'
    rows = [
        (
            f"{escape(one['says'])} <small><code>{escape(one['reason'])}</code></small>"
            + (f"<br>worst files: {_worst(one['worst'])}" if one["worst"] else ""),
            f"{one['of_day']:,}",
            f"{one['records']:,}",
            "<br>".join(map(_example, one["examples"])),
        )
        for one in reasons
    ]
    return _table(
        "Rejected records",
        ("why", "on this day", "so far", "examples, with x and 9 for what was there"),
        rows,
    )


def _example(one: Fields) -> str:
    origin = f"{one['source_file']}, line {one['source_line']}"
    return f"<small>{escape(origin)}</small> <code>{escape(one['form'])}</code>"


def _profile(rows: Sequence[Fields]) -> str:
    """Return the newest day with rows, and each of its columns with the days before it."""
    (day,), columns = ([row for row in rows if (row["column"] == "*") is is_day] for is_day in (True, False))
    hours = columns_of([f"{hour}:00" for hour in range(24)], day["by_hour"], "rows by hour of the day")
    late = f"{day['rows']:,} rows are of {day['day']}, {day['late']:,} of them came late"
    if day["retracted"]:
        late += f"; at most {day['retracted']:,} were retracted since, and the figures still count them"
    names = (
        "column",
        "missing",
        "distinct",
        "least",
        "median (5 % to 95 %)",
        "greatest",
        "mean ± deviation",
        "last thirty days",
        "most frequent (rows)",
    )
    shown = _table("Columns", names, [_column(row) for row in columns])
    return f"<p>{escape(late)}. By hour, in UTC: {hours} Rows of each day: {_days(day, 'rows')}</p>{shown}"


def _column(figures: Fields) -> Sequence[str]:
    row = with_times(figures)
    about = "about " if row["distinct_error"] else ""
    mean = (
        "-" if row["mean"] is None else f"{number(row['mean'])} ± {number(row['deviation'] or 0, digits=3)}"
    )
    frequent = ", ".join(f"{value} ({rows:,})" for value, rows in row["frequent"][:_FREQUENT])
    missing = f"{row['missing']:,} ({row['missing'] / max(row['rows'], 1):.1%})"
    least, greatest = ("-" if row[end] is None else number(row[end]) for end in ("least", "greatest"))
    low, middle, high = (number((row["quantiles"] or {}).get(share, 0)) for share in ("0.05", "0.5", "0.95"))
    median = f"{middle} ({low} to {high})" if row["quantiles"] else "-"
    # The times of a day are of this day: their mean tells nothing of others.
    days = "" if row["unit"] else _days(row, "share with a value" if row["mean"] is None else "mean")
    return (
        *map(escape, (row["column"], missing, f"{about}{row['distinct']:,}", least, median, greatest, mean)),
        days,
        escape(frequent),
    )


def number(value: float | str, digits: int = 6) -> str:
    """Return a number for people: of a large one all digits, if a cell has room for them; a text as it is.

    >>> number(24.08), number(90_801), number(1_768_690.4), number(1e12)
    ('24.08', '90,801', '1,768,690', '1e+12')
    """
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if 10**digits <= abs(value) < 1e10 else f"{value:,.{digits}g}"


def _days(row: Fields, label: str) -> str:
    return daily([one["day"] for one in row["trend"]], [one["value"] for one in row["trend"]], label)


def _table(caption: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of cells that are markup."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table><thead><tr>{head}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def trend(runs: Sequence[dict[str, Any]]) -> str:
    """Return the last runs of a rule as bars, the newest at the right: the higher, the more of it was broken."""
    most = max((run["value"] or 0.0 for run in runs), default=0.0)
    start = (RUNS - len(runs)) * _STEP
    bars = "".join(_bar(run, start + index * _STEP, most) for index, run in enumerate(runs))
    count = f"{len(runs)} run{'s' * (len(runs) != 1)}"
    held = f"{sum(run['state'] in ('holds', 'rejects') for run in runs)} of {count} held"
    ground = f'<line class="ground" x1="0" x2="{RUNS * _STEP}" y1="{_HEIGHT}" y2="{_HEIGHT}"/>'
    return f"{_svg(RUNS * _STEP, held, ground + bars)}<br><small>{held}</small>"


def columns_of(names: Sequence[str], counts: Sequence[int], label: str) -> str:
    """Return counts as columns, each with its name."""
    most = max(counts, default=0)
    shapes = (
        _rectangle("plain", index * _STEP, _HEIGHT * count / most if most else 0.0, f"{name}: {count:,}")
        for index, (name, count) in enumerate(zip(names, counts, strict=True))
    )
    return _svg(len(counts) * _STEP, label, "".join(shapes))


def _bar(run: dict[str, Any], left: int, most: float) -> str:
    height = _STUB + (_HEIGHT - _STUB) * ((run["value"] or 0.0) / most if most else 0.0)
    value = "" if run["value"] is None else f", {run['value']:.4g}"
    return _rectangle(
        run["state"], left, height, f"{format_timestamp(run['at_us'])} UTC: {run['state']}{value}"
    )


def _rectangle(kind: str, left: int, height: float, title: str) -> str:
    shape = f'x="{left}" y="{_HEIGHT - height:.1f}" width="{_STEP - 1}" height="{height:.1f}"'
    return f'<rect class="{kind}" {shape}><title>{escape(title)}</title></rect>'


def daily(days: Sequence[str], values: Sequence[float | None], label: str) -> str:
    """Return a figure of each day as dots on a line, the newest day at the right; a day without it is left out."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    ends = f"{label}: {low:.4g} to {high:.4g}"
    return _svg(max(len(values), 2) * _STEP, ends, "".join(_dots(days, values, low, high)))


def _dots(days: Sequence[str], values: Sequence[float | None], low: float, high: float) -> Iterator[str]:
    before = None
    for index, (day, value) in enumerate(zip(days, values, strict=True)):
        if value is None:
            before = None
            continue
        x, y = (
            index * _STEP + 3,
            _HEIGHT - 3 - (_HEIGHT - 6) * ((value - low) / (high - low) if high > low else 0.5),
        )
        if before:
            yield f'<line x1="{before[0]}" y1="{before[1]:.1f}" x2="{x}" y2="{y:.1f}"/>'
        yield f'<circle cx="{x}" cy="{y:.1f}" r="1.8"><title>{escape(day)}: {value:.6g}</title></circle>'
        before = x, y


def _svg(width: int, label: str, shapes: str) -> str:
    size = f'width="{width}" height="{_HEIGHT}" viewBox="0 0 {width} {_HEIGHT}"'
    return f'<svg class="trend" {size} role="img" aria-label="{escape(label)}">{shapes}</svg>'
