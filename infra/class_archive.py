"""``python -m infra.class_archive``, part of ``make setup``: make the archive that sessions start from."""

import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from lakehouse.config.spark_settings import SparkSettings
from lakehouse.settings import Settings
from lakehouse.spark.archived_classes import QUIET, archive_file
from lakehouse.spark.jars import java_command
from lakehouse.spark.session import started_session


def make_archive() -> Path:
    """Make the archive, or make it again, from the classes that reading lines and writing tables needs; half a minute.

    Raises RuntimeError when the JVM cannot start from what it wrote, as on a full disk; there is no archive then.
    """
    kept = archive_file()
    kept.parent.mkdir(parents=True, exist_ok=True)
    # A session that starts meanwhile finds a whole archive or none.
    kept.unlink(missing_ok=True)
    made = kept.with_suffix(".part")
    with tempfile.TemporaryDirectory(prefix="tidemark-classes-") as folder:
        options = f'{SparkSettings().java_options} "-XX:ArchiveClassesAtExit={made}" {QUIET}'
        spark = started_session(Settings(home=Path(folder), spark=SparkSettings(java_options=options)))
        _load_classes(spark, Path(folder))
        _end(spark)
    if not _can_start_from(made):
        made.unlink(missing_ok=True)
        raise RuntimeError(
            f"the JVM wrote nothing that it can start from to {made}; is there space for 200 MB?"
        )
    return made.replace(kept)


def _load_classes(spark: Any, folder: Path) -> None:
    """Read lines, and write, extend and read a table."""
    table, landed = str(folder / "table"), folder / "landed.ndjson"
    landed.write_text("{}\n" * 1000)
    rows = spark.read.text(str(landed)).selectExpr("hash(value) % 7 AS remainder")
    for _ in range(2):
        rows.write.format("delta").mode("append").save(table)
    spark.read.format("delta").load(table).groupBy("remainder").count().toArrow()


def _end(spark: Any) -> None:
    """End the session's JVM, which writes the archive then."""
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _can_start_from(archive: Path) -> bool:
    # A JVM that finds half an archive ends with an error.
    command = [java_command(), f"-XX:SharedArchiveFile={archive}", "-version"]
    return archive.is_file() and subprocess.run(command, capture_output=True).returncode == 0


def main() -> int:
    """Make the archive and say how long that took."""
    print("archiving Spark's classes, so that sessions start faster ...", flush=True)
    started = time.monotonic()
    made = make_archive()
    print(f"made {made}, {made.stat().st_size / 1e6:.0f} MB, in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
