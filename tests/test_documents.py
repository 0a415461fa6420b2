"""The documents agree with the tree: links lead to files and headings, named modules and commands exist."""

from __future__ import annotations

import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from infra.site_links import without_outside_links

ROOT = Path(__file__).parents[1]
TOP_DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
DOCUMENTS = sorted(
    [ROOT / name for name in TOP_DOCUMENTS]
    + [path for folder in ("docs", "lakehouse", "tests") for path in (ROOT / folder).rglob("*.md")]
)
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
MOST_LINES = {
    "README.md": 200,
    "ARCHITECTURE.md": 250,
    "CONTRIBUTING.md": 200,
    "docs/performance.md": 150,
    "docs/scale.md": 150,
}
FENCED = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*$", re.MULTILINE)
PATH_IN_CODE = re.compile(
    r"`((?:lakehouse|jobs|dags|quality|sql|infra|tests|docs)/[\w./-]+\.(?:py|sql|toml|md|sh))`"
)
BENCHMARK = re.compile(r"python -m (tests(?:\.\w+)+)(?![.\w<])")
TOML = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings: lower case, words joined by hyphens, no punctuation."""
    headings = HEADING.findall(FENCED.sub("", _text(path)))
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def _broken(path: Path) -> list[str]:
    broken = []
    for link in LINK.findall(FENCED.sub("", _text(path))):
        if "://" in link or link.startswith("mailto:"):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        headed = file.suffix != ".md" or not anchor or (file.exists() and anchor in _anchors(file))
        if not file.exists() or not headed:
            broken.append(link)
    return broken


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    broken = {name: _broken(ROOT / name) for name in NAMES}

    assert {name: links for name, links in broken.items() if links} == {}


def test_every_file_and_benchmark_that_is_named_exists() -> None:
    missing = {}
    for name in NAMES:
        text = _text(ROOT / name)
        missing[name] = [path for path in PATH_IN_CODE.findall(text) if not (ROOT / path).exists()]
        missing[name] += [module for module in BENCHMARK.findall(text) if find_spec(module) is None]

    assert {name: absent for name, absent in missing.items() if absent} == {}


@pytest.mark.parametrize("name", MOST_LINES)
def test_a_document_for_first_readers_stays_short(name: str) -> None:
    assert len(_text(ROOT / name).splitlines()) <= MOST_LINES[name]


def test_at_most_thirty_decisions_hold_each_a_page_that_says_what_would_change_it() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    parts = ("**Context.**", "**Choice.**", "**Figures.**", "**What would change it.**")

    assert len(pages) <= 30
    assert [page.name[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]
    assert {page.name: part for page in pages for part in parts if part not in _text(page)} == {}
    assert [page.name for page in pages if len(_text(page).splitlines()) > 60] == []
    assert [page.name for page in pages if f"({page.name})" not in _text(page.parent / "README.md")] == []


def test_the_text_of_the_docs_stays_small_enough_to_read() -> None:
    # Without pictures and the notebook, whose output a test makes; generated pages are beside their benchmarks.
    written = sum(path.stat().st_size for path in (ROOT / "docs").rglob("*.md"))

    assert written <= 250 * 1024


def test_every_piece_of_configuration_is_toml() -> None:
    wrong = []
    for name in NAMES:
        for piece in TOML.findall(_text(ROOT / name)):
            try:
                tomllib.loads(piece)
            except tomllib.TOMLDecodeError as error:
                wrong.append(f"{name}: {error}: {piece}")

    assert wrong == []


def test_the_readme_lists_every_command() -> None:
    from typer.main import get_command_name

    from lakehouse.cli.app import app

    listed = set(re.findall(r"^    tidemark ([a-z-]+) ", _text(ROOT / "README.md"), re.MULTILINE))

    assert {
        get_command_name(command.callback.__name__) for command in app.registered_commands if command.callback
    } == listed


def test_contributors_are_told_of_every_target_and_mark() -> None:
    text = _text(ROOT / "CONTRIBUTING.md")
    targets = set(re.findall(r"^([a-z-]+):.*##", _text(ROOT / "Makefile"), re.MULTILINE)) - {"help"}
    marks = tomllib.loads(_text(ROOT / "pyproject.toml"))["tool"]["pytest"]["ini_options"]["markers"]

    assert [target for target in sorted(targets) if f"make {target}" not in text] == []
    assert [mark for mark in marks if f"| `{mark.partition(':')[0]}` |" not in text] == []


def test_the_architecture_names_every_table() -> None:
    layout = _text(ROOT / "lakehouse" / "storage" / "layout.py")
    tables = {
        f"{folder}/<{of}>" for folder, of in re.findall(r'self\.root / "(\w+)" / (stream|query)\b', layout)
    }
    others = {"batch_manifests/<query>", "manifests/<stream>"}

    assert {table for table in tables if table not in _text(ROOT / "ARCHITECTURE.md")} <= others


def test_the_site_shows_links_out_of_its_folder_as_text() -> None:
    page = "See [a test](../tests/a.py), [0001](decisions/0001.md) and ![a picture](../x.svg)."

    shown = without_outside_links(page, "sources.md")

    assert shown == "See a test, [0001](decisions/0001.md) and ![a picture](../x.svg)."


def test_each_line_of_who_may_do_what_names_its_tests() -> None:
    lines = _text(ROOT / "docs" / "security.md").partition("| who |")[2].partition("\n\n")[0].splitlines()[3:]
    named = [re.findall(r"\]\(\.\./(tests/[\w/]+\.py)\)", line.rpartition(" | ")[2]) for line in lines]

    assert len(named) > 8 and all(named)
    assert all((ROOT / path).is_file() for paths in named for path in paths)
