"""Recipes of docs/tools.md and its notebook, run as they are there, against one server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest
from sqlalchemy import create_engine, inspect, text

from lakehouse.serving.ask.ask import ask
from lakehouse.storage.layout import Home
from tests.cli.conftest import START_US, published_home
from tests.web.conftest import TOKEN, bare, served
from tests.web.test_file import HTTPFS

__all__ = ["published_home"]
DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tools.md").read_text(encoding="utf-8")
END_US = START_US + 1_800_000_000
JARS = Path.home() / ".cache" / "tidemark" / f"duckdb_jdbc-{duckdb.__version__}.0"
# A program that asks as a tool does: the address of a connection, a statement, and each row on a line.
ASK = """
import java.sql.*;
public class Ask {
    public static void main(String[] given) throws Exception {
        try (Connection connection = DriverManager.getConnection(given[0]);
                ResultSet rows = connection.createStatement().executeQuery(given[1])) {
            while (rows.next())
                for (int place = 1; place <= 3; place++) System.out.println(rows.getDouble(place));
        }
    }
}
"""


@pytest.fixture(scope="module")
def address(published_home: Path) -> Iterator[str]:
    with served(Home(published_home)) as found:
        yield found


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def _here(block: str, address: str) -> str:
    """Return a recipe for the server of the tests; the extension is here already and needs no network."""
    found = block.replace("http://127.0.0.1:8417", bare(address)).replace("tm_...", TOKEN)
    return found.replace("INSTALL httpfs; LOAD httpfs", f"LOAD '{HTTPFS}'")


@pytest.mark.slow
def recipe(address: str) -> str:
    """Return the statements that make a file of views over a server."""
    (block,) = _blocks("sql")
    return _here(block, address)


def secrets_below(folder: Path) -> dict[str, Any]:
    """Return the setting that has DuckDB keep secrets below a folder rather than the user's."""
    return {"secret_directory": str(folder / "secrets")}


def superset_parameters(extensions: Path) -> Any:
    """Return the engine's parameters, with a folder that holds the extension as INSTALL would have put it."""
    (block,) = _blocks("json")
    parameters = json.loads(block)
    parameters["connect_args"]["config"]["extension_directory"] = str(extensions)
    parameters["connect_args"]["config"] |= secrets_below(extensions.parent)
    installed = extensions / f"v{duckdb.__version__}" / duckdb.sql("PRAGMA platform").fetchall()[0][0]
    installed.mkdir(parents=True)
    shutil.copy(HTTPFS, installed)
    return parameters


def test_frames_hold_every_bucket_with_its_interval(address: str) -> None:
    (block,) = _blocks("python")
    found: dict[str, object] = {}

    exec(compile(_here(block, address), "docs/tools.md", "exec"), found)

    assert len(found["frame"]) == 48  # type: ignore[arg-type]


@pytest.mark.slow
def test_views_are_read_by_the_dialect_of_sqlalchemy(address: str, tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "views.duckdb", config=secrets_below(tmp_path)) as connection:
        connection.execute(recipe(address))
    arguments = superset_parameters(tmp_path / "extensions")["connect_args"]

    engine = create_engine(f"duckdb:///{tmp_path}/views.duckdb", connect_args=arguments)

    with engine.connect() as connected:
        counted = connected.execute(text("SELECT count(*), count(DISTINCT device) FROM temperature")).one()
        streams = connected.execute(text("SELECT count(*) FROM streams")).scalar_one()
        # Superset quotes no names: a column that is a word of SQL could not be the axis of time of a chart.
        hours = connected.execute(
            text("SELECT DATE_TRUNC('hour', starts_at) AS starts_at FROM temperature")
        ).all()
    assert (tuple(counted), streams, len(hours)) == ((480, 2), 1, 480)
    assert sorted(inspect(engine).get_view_names()) == ["streams", "temperature"]


def _driver() -> Path:
    """Return DuckDB's driver for JDBC, fetched once; a test that cannot have it skips."""
    jar = JARS / "driver.jar"
    if jar.exists():
        return jar
    if shutil.which("mvn") is None or shutil.which("javac") is None:
        pytest.skip("the driver for JDBC needs Maven and a JDK, which are not installed")
    named = f"org.duckdb:duckdb_jdbc:{duckdb.__version__}.0"
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={named}", f"-DoutputDirectory={JARS}"]
    fetched = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if fetched.returncode:
        pytest.skip(f"the driver for JDBC cannot be fetched: {fetched.stdout[-300:]}")
    next(JARS.glob("duckdb_jdbc-*.jar")).rename(jar)
    return jar


@pytest.mark.slow
def test_a_tool_asks_by_jdbc(address: str, published_home: Path, tmp_path: Path) -> None:
    attach = httpx.get(f"{address}/latest/attach.sql").text
    secret = f"CREATE SECRET (TYPE http, BEARER_TOKEN '{TOKEN}');"
    (tmp_path / "tidemark.sql").write_text(f"LOAD '{HTTPFS}';\n{secret}\n{attach}", encoding="utf-8")
    (tmp_path / "Ask.java").write_text(ASK, encoding="utf-8")
    (written,) = re.findall(r"^jdbc:duckdb:.*$", PAGE, flags=re.MULTILINE)
    times = f"make_timestamp({START_US}), make_timestamp({END_US})"
    asked = f"SELECT value, low, high FROM range_avg('telemetry', 'temp', {times})"

    command = [
        "java",
        "-cp",
        str(_driver()),
        str(tmp_path / "Ask.java"),
        written.replace("/srv/bi", str(tmp_path)),
        asked,
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    (expected,) = ask(published_home, "telemetry", "temp", "avg", START_US, END_US)
    assert [float(each) for each in found.split()] == [expected.value, expected.low, expected.high]


@pytest.mark.slow
def test_the_notebook_runs_as_it_stands_there(published_home: Path) -> None:
    notebook = json.loads((DOCS / "examples" / "answers.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    found: dict[str, object] = {}

    for number, cell in enumerate(cells):
        exec(
            compile(cell.replace('Path("var")', f'Path("{published_home}")'), f"cell {number}", "exec"), found
        )

    cut = found["cut"]
    assert cut.low < cut.value < cut.high and not cut.exact  # type: ignore[attr-defined]
    assert len(found["frame"]) == 96  # type: ignore[arg-type]
    assert all(not cell.get("outputs") for cell in notebook["cells"]), "outputs are not committed"
