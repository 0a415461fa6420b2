from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pydantic import SecretStr

from lakehouse.config.spark_settings import SparkSettings
from lakehouse.settings import Settings
from lakehouse.spark.cluster import ClusterUnavailable, options_aside, unreachable
from lakehouse.spark.package_archive import package_archive
from lakehouse.spark.session import started_session
from lakehouse.spark.workers import Worker, advice, differences, versions_here


def test_the_archive_is_made_once_and_again_where_the_code_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = package_archive(tmp_path)
    made = first.stat()
    monkeypatch.setattr("lakehouse.spark.package_archive.PACKAGES", ("sql",))

    other = package_archive(tmp_path)

    monkeypatch.undo()
    assert package_archive(tmp_path) == first != other
    assert first.stat().st_mtime_ns == made.st_mtime_ns
    assert re.fullmatch(r"tidemark-[0-9a-f]{16}\.zip", first.name)


@pytest.mark.slow
def test_what_tasks_run_and_the_sql_that_they_read_come_from_the_archive(tmp_path: Path) -> None:
    archive = package_archive(tmp_path)
    script = (
        "import sql, lakehouse.rollup.nodes as n; print(n.__file__); print(sql.statement('tables/raw')[:2])"
    )

    found = subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            f"import sys; sys.path[:0] = {[str(archive), *_packages()]!r}; {script}",
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )

    assert found.stdout.split() == [f"{archive}/lakehouse/rollup/nodes.py", "--"]


def _packages() -> list[str]:
    return [path for path in sys.path if path.endswith("site-packages")]


@pytest.mark.slow
def test_a_kernel_of_the_archive_is_compiled_once_wherever_the_archive_lies(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        _with_kernel(tmp_path / name / "tidemark-0123456789abcdef.zip")
        found = subprocess.run(
            [
                sys.executable,
                "-c",
                "import kernel as k; print(k.twice(2), sum(k.twice.stats.cache_hits.values()))",
            ],
            env=os.environ
            | {
                "PYTHONPATH": str(tmp_path / name / "tidemark-0123456789abcdef.zip"),
                "XDG_CACHE_HOME": str(tmp_path / "cache"),
                "NUMBA_CACHE_LOCATOR_CLASSES": "lakehouse.spark.kernel_cache.ArchivedKernels",
            },
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
        )
        assert found.stdout.split() == ["4", str(int(name == "second"))]


def _with_kernel(archive: Path) -> None:
    text = "from numba import njit\n@njit(cache=True)\ndef twice(x):\n    return 2 * x\n"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("kernel.py", text)


def test_what_differs_between_driver_and_workers_is_named_once() -> None:
    here = {"Python": "3.11.7", "numpy": "2.3.4", "numba": "0.68.1"}
    same = Worker("a", {"Python": "3.11.9", "numpy": "2.3.4", "numba": "0.68.1"}, ())
    other = Worker("b", {"Python": "3.12.1", "numpy": "2.3.5"}, ("/lake",))

    assert differences(here, [same]) == []
    found = differences(here, [same, other, other])

    assert found == [
        "b has Python 3.12.1, the driver 3.11.7",
        "b has numpy 2.3.5, the driver 2.3.4",
        "b has numba none, the driver 0.68.1",
        "b does not see /lake",
    ]
    assert "requirements.lock" in advice(found) and "driver and workers share" in advice(found)


def test_the_driver_has_all_that_tasks_import() -> None:
    assert "none" not in versions_here().values()


def test_a_master_that_does_not_answer_is_told_at_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{taken.getsockname()[1]}"
        settings = Settings(home=tmp_path, spark=SparkSettings(master=master))

        assert "refused" in unreachable(settings.spark)
        with pytest.raises(ClusterUnavailable, match=f"no Spark master of {master} answers .*refused"):
            started_session(settings)


def test_one_master_of_several_is_enough() -> None:
    with socket.socket() as master:
        master.bind(("127.0.0.1", 0))
        master.listen()

        assert (
            unreachable(SparkSettings(master=f"spark://127.0.0.1:1,127.0.0.1:{master.getsockname()[1]}"))
            == ""
        )


def test_options_and_secret_reach_the_jvm_in_a_file_of_its_owner_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    own = SparkSettings(master="spark://h:1", options={"spark.a": "b c=\\é"}, secret=SecretStr("open-sesame"))

    with options_aside(own):
        words = os.environ["PYSPARK_SUBMIT_ARGS"].split()
        file = Path(words[1])
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text("utf-8").splitlines() == [
            r"spark.a=b\ c\=\\é",
            "spark.authenticate.secret=open-sesame",
        ]

    assert words[0] == "--properties-file" and words[-1] == "pyspark-shell" and not file.exists()
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ
