"""Fixtures every test may use: one Spark session per run, real data where it is present, small lakehouses."""

from __future__ import annotations

import gc
import json
import os
import re
import tarfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings as examples
from xdist.scheduler import LoadScopeScheduling

from lakehouse.config.spark_settings import SparkSettings
from lakehouse.settings import Settings, load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.spark.session import LazySession
    from tests.serving.conftest import Lakehouse

DATA = Path(__file__).parents[2] / "shared" / "data"


# Seconds that groups of tests took on two cores, by `python -m tests.support.durations`; others count as these.
DURATIONS = Path(__file__).parent / "durations.json"
UNTIMED = {"airflow": 20, "spark": 15, "slow": 5}
# The part of a property's examples that `--few-examples` leaves, and how many at least.
FEW = 10
FEWEST = 3
# Whose tests share no more than a session: each of them may run in a process of its own.
APART = ("tests/end_to_end/test_query_crashes.py", "tests/benchmarks/test_quick.py")
# Whose cases share what they set up with the other tests of that case.
BY_CASE = re.compile(r"tests/queries/test_laws.py::.*(\[\w+\])")
# The tests of a problem compile the same kernels, wherever they are, which one process should do for all of them.
COMPILED = re.compile(r"(?:lakehouse/algorithms|tests/algorithms|tests/oracles)/(\w+)/")


# The marks of all tests of a file, and those that `-m` does not want.
MARKS_OF_FILE = re.compile(r"^pytestmark = (?:\[[^\]]*\]|.*)", re.MULTILINE)
UNWANTED = re.compile(r"\bnot (\w+)")

# Kernels run in the process of a test, and in subprocesses that it starts, unless it is about Spark.
os.environ.setdefault("TIDEMARK_ENGINE__RUNNER", "local")

# How long an example takes says how busy the machine is; a test that hangs is ended by pytest's own limit.
examples.register_profile("tidemark", deadline=None)
examples.load_profile("tidemark")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make test-fast` ask for fewer examples of each property."""
    parser.addoption("--few-examples", action="store_true", help=f"try 1 of {FEW} examples of each property")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Look for no garbage while modules are imported, a third of the time, and never again among what they keep."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of which `-m` wants no test: what some of them import takes seconds."""
    if collection_path.suffix != ".py" or " or " in (wanted := config.option.markexpr):
        return None
    marks = MARKS_OF_FILE.search(collection_path.read_text(encoding="utf-8"))
    unwanted = UNWANTED.findall(wanted)
    return True if marks and any(f"pytest.mark.{name}" in marks[0] for name in unwanted) else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples only in files that have any."""
    found = yield
    has_examples = ">>>" in file_path.read_text(encoding="utf-8") if file_path.suffix == ".py" else True
    return [each for each in found if has_examples or not isinstance(each, DoctestModule)]


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives tests to processes in groups, which xdist's own mark for groups does not do on pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    """Let tests that share what they set up, or compile, stay in one process."""
    return GroupScheduling(config, log)


def group_of(nodeid: str) -> str:
    """Return which tests a test must stay together with: mostly those of its file."""
    place = nodeid.split("::")[0]
    if place in APART:
        return nodeid
    if case := BY_CASE.match(nodeid):
        return place + case[1]
    compiled = COMPILED.match(place)
    return compiled[1] if compiled else place


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the groups that take longest, so that processes end together."""
    seconds = json.loads(DURATIONS.read_text(encoding="utf-8"))
    marked = {name: {group_of(i.nodeid) for i in items if i.get_closest_marker(name)} for name in UNTIMED}

    def expected(item: pytest.Item) -> float:
        group = group_of(item.nodeid)
        marks = [UNTIMED[name] for name in UNTIMED if group in marked[name]]
        return float(seconds.get(group, max([*marks, 10 if COMPILED.match(item.nodeid) else 1])))

    items.sort(key=lambda item: (-expected(item), group_of(item.nodeid)))
    if items and items[0].config.getoption("--few-examples"):
        # Cases of one test share its function.
        for test in {getattr(item, "obj", None) for item in items}:
            _try_fewer(test)


def _try_fewer(test: object) -> None:
    """Try fewer examples of a property than its own settings say, which no option of hypothesis can."""
    place = "_hypothesis_internal_use_settings"
    if getattr(test, "is_hypothesis_test", False):
        own = getattr(test, place, None) or examples()
        fewer = max(own.max_examples // FEW, FEWEST)
        setattr(test, place, examples(own, max_examples=min(fewer, own.max_examples)))


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


INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def compile_plans(session: SparkSession, wanted: bool) -> None:
    """Let Spark compile its plans, as it does outside of tests, or interpret them."""
    session.conf.set("spark.sql.codegen.wholeStage", wanted)
    session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if wanted else "NO_CODEGEN")


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of this run for what needs no JVM: kernels run in this process.

    A JVM that is started all the same interprets its plans: for a handful of rows compiling them takes longest.
    """
    from lakehouse.spark.session import build_session, end_session

    interpreted = SparkSettings(options=INTERPRETED)
    session = build_session(Settings(home=tmp_path_factory.mktemp("spark"), spark=interpreted))
    yield session
    end_session(session)


@pytest.fixture(scope="session")
def on_spark(session: SparkSession) -> SparkSession:
    """Spark's own session of this run: kernels run in its tasks."""
    return cast("LazySession", session).started()


@pytest.fixture(scope="session")
def spark(session: SparkSession, on_spark: SparkSession) -> SparkSession:
    """The session of this run with its JVM, for what only Spark does: kernels run in this process."""
    return session


@pytest.fixture(scope="session")
def lakehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    """The published home that tests of several folders ask, made once a process; none of them changes it."""
    from tests.serving.conftest import published_lakehouse

    with published_lakehouse(tmp_path_factory.mktemp("lakehouse")) as found:
        yield found


@pytest.fixture
def lakehouse_of(tmp_path: Path) -> Callable[[str], Settings]:
    """Return settings read from a configuration text, with its home and landing below ``tmp_path``."""

    def settings(text: str) -> Settings:
        config = tmp_path / "tidemark.toml"
        config.write_text(text, encoding="utf-8")
        return load_settings(config)

    return settings
