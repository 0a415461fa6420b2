"""Fixtures every test may use: one Spark session per run, real data where it is present, small lakehouses."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings as examples

from lakehouse.declare.settings import Settings, load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parents[2] / "shared" / "data"


# The part of a property's examples that `--few-examples` leaves.
FEW = 4
# Whose tests share no more than a session: each of them may run in a process of its own.
APART = ("tests/end_to_end/test_query_crashes.py",)
# Their tests compile the same kernels, which one process should do for all of them.
COMPILED = "tests/algorithms"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make test-fast` ask for fewer examples of each property."""
    parser.addoption("--few-examples", action="store_true", help=f"try 1 of {FEW} examples of each property")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests stay in one process, and start with what takes longest, so that processes end together."""
    slow, spark = (
        {item.path for item in items if item.get_closest_marker(name)} for name in ("slow", "spark")
    )
    items.sort(
        key=lambda item: (item.path not in slow, item.path not in spark, COMPILED not in item.path.as_posix())
    )
    for item in items:
        if group := _group(item):
            item.add_marker(pytest.mark.xdist_group(group))
    if items and items[0].config.getoption("--few-examples"):
        # Cases of one test share its function.
        for test in {getattr(item, "obj", None) for item in items}:
            _try_fewer(test)


def _try_fewer(test: object) -> None:
    """Try fewer examples of a property than its own settings say, which no option of hypothesis can."""
    place = "_hypothesis_internal_use_settings"
    if getattr(test, "is_hypothesis_test", False):
        own = getattr(test, place, None) or examples()
        setattr(test, place, examples(own, max_examples=max(own.max_examples // FEW, 10)))


def _group(item: pytest.Item) -> str:
    """Return which tests a test must stay together with, an empty text for none: those of its file mostly."""
    place = item.path.relative_to(item.config.rootpath).as_posix()
    if place in APART:
        return ""
    return str(Path(place).parent) if place.startswith(COMPILED) else place


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data sets; the test is skipped where it is absent."""
    if not DATA.is_dir():
        pytest.skip(f"no real data sets at {DATA}")
    return DATA


@pytest.fixture(scope="session")
def rooms(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of room-climate's 60 measurements, unpacked."""
    folder = tmp_path_factory.mktemp("rooms")
    with tarfile.open(data / "room-climate" / "room_climate_location_A.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "datasets-location_A"


def compile_plans(session: SparkSession, wanted: bool) -> None:
    """Let Spark compile its plans, as it does outside of tests, or interpret them."""
    session.conf.set("spark.sql.codegen.wholeStage", wanted)
    session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if wanted else "NO_CODEGEN")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of this run, which interprets its plans: for a handful of rows compiling them takes longest."""
    from lakehouse.spark.session import build_session

    session = build_session(Settings(home=tmp_path_factory.mktemp("spark")))
    compile_plans(session, False)
    yield session
    session.stop()


@pytest.fixture
def lakehouse_of(tmp_path: Path) -> Callable[[str], Settings]:
    """Return settings read from a configuration text, with its home and landing below ``tmp_path``."""

    def settings(text: str) -> Settings:
        config = tmp_path / "tidemark.toml"
        config.write_text(text, encoding="utf-8")
        return load_settings(config)

    return settings
