"""Fixtures every test may use: one Spark session per run, real data where it is present, small lakehouses."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.declare.settings import Settings, load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parents[2] / "shared" / "data"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the files that take longest first, so that processes side by side end together."""
    slow, spark = (
        {item.path for item in items if item.get_closest_marker(name)} for name in ("slow", "spark")
    )
    items.sort(key=lambda item: (item.path not in slow, item.path not in spark))


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
