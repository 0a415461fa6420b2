from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lakehouse.settings import Settings
from lakehouse.spark.deviations import Frame
from quality.checkpoint import judge, report_page

pytestmark = pytest.mark.slow
FOREIGN = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)


class Loaded(HTMLParser):
    """What a browser would load or run of a page, and its policies."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts, self.loaded, self.links = 0, list[str](), list[str]()
        self.policies = list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self.scripts += tag == "script"
        self.loaded += [said["src"]] if "src" in said else []
        if tag in ("link", "a") and "href" in said:
            (self.links if tag == "a" else self.loaded).append(said["href"])
        if said.get("http-equiv") == "Content-Security-Policy":
            self.policies.append(said["content"])


def of_totals(imbalance: float) -> Frame:
    metrics = ("raw_gap", "quarantine_gap", "unfinished_corrections", "rejected_share")
    return Frame("totals", (), [{"imbalance": imbalance, **dict.fromkeys(metrics, 0)}])


def loads_nothing_foreign(path: Path) -> bool:
    page = path.read_text("utf-8")
    found = Loaded(page)
    styles = re.findall(r"(?:@import\s|url\()\s*[\"']?([^\"')]*)", page)
    assert found.scripts == 0
    assert found.policies == [found.policies[0]] and "default-src 'none'" in found.policies[0]
    return not any(FOREIGN.match(address) for address in [*found.loaded, *styles])


def test_no_page_loads_anything_from_elsewhere(checked_home: Settings) -> None:
    judge(checked_home, "telemetry", [of_totals(0)])
    judge(checked_home, "other", [of_totals(3)])

    site = Path(report_page(checked_home.layout)).parent
    pages = list(site.rglob("*.html"))
    assert len(pages) >= 4
    assert [page for page in pages if not loads_nothing_foreign(page)] == []
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:@import\s|url\()\s*[\"']?(?:https?:)?//", style.read_text("utf-8"))


def test_the_index_leads_to_every_result(checked_home: Settings) -> None:
    judge(checked_home, "telemetry", [of_totals(0)])
    judge(checked_home, "other", [of_totals(3)])

    index = Path(report_page(checked_home.layout))
    page = index.read_text("utf-8")
    linked = {(index.parent / address).resolve() for address in Loaded(page).links}
    assert linked == {path.resolve() for path in index.parent.rglob("*.html")} - {index.resolve()}
    assert (page.count("</i> passed"), page.count("</i> failed")) == (1, 1)


@pytest.mark.parametrize(
    "tag",
    [
        '<script src="https://x/y.js"></script>',
        "<SCRIPT>let a = '<b>'</SCRIPT >",
        "<script>never closed",
        "<link rel=stylesheet href=//x/y.css>",
        "<img\n src = 'HTTPS://x/y.png'/>",
        '<iframe src="http://x"></iframe>',
        '<object data="https://x/y">',
    ],
)
def test_what_is_foreign_is_taken_out(tag: str) -> None:
    from quality.pages import with_nothing_foreign

    found = Loaded(with_nothing_foreign(f'<head></head><img src="../logo.png">{tag}'))

    assert (found.scripts, found.loaded) == (0, ["../logo.png"])
