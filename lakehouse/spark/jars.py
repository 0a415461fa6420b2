"""Which jars a session needs and where they are kept; no pyspark here, so that a check costs nothing.

Jars are resolved once from Maven Central (``python -m lakehouse.spark.jars``, part of ``make setup``) into
``$TIDEMARK_JARS`` or ``~/.cache/tidemark/jars``; sessions then start from there and need no network.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Their other dependencies are on Spark's own class path already; a second copy only slows the start.
_NOT_IN_SPARK = (
    "io.delta_",
    "io.unitycatalog_",
    "org.apache.kafka_",
    "org.apache.spark_",
    "org.apache.commons_commons-pool2",
)
_TOKENS = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
_IN_SPARK = ("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime")
# What is fetched together, and what is left out of it. Spark 4.1's connector asks for a token provider of its own
# version, which Maven Central does not have; that of 4.0.0 is the same code.
GROUPS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        (
            "io.delta:delta-spark_4.1_2.13:4.4.0",
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
            "org.apache.kafka:kafka-clients:3.9.1",
        ),
        (_TOKENS, *_IN_SPARK),
    ),
    ((f"{_TOKENS}:4.0.0",), ("org.apache.kafka:kafka-clients", *_IN_SPARK)),
)


def jars_folder() -> Path:
    """Return the folder that resolved jars are kept in."""
    return Path(os.environ.get("TIDEMARK_JARS") or Path.home() / ".cache" / "tidemark" / "jars")


def missing_jars() -> list[str]:
    """Return the Maven coordinates that have not been resolved into ``jars_folder`` yet."""
    wanted = [package for packages, _ in GROUPS for package in packages]
    return [package for package in wanted if not (jars_folder() / "jars" / _file_name(package)).is_file()]


def jar_paths() -> list[str]:
    """Return the resolved jars that Spark does not bring itself."""
    jars = (jars_folder() / "jars").glob("*.jar")
    return sorted(str(path) for path in jars if path.name.startswith(_NOT_IN_SPARK))


def _file_name(package: str) -> str:
    group, artifact, version = package.split(":")
    return f"{group}_{artifact}-{version}.jar"


def main() -> int:
    """Resolve the jars once, telling what is going on."""
    missing = missing_jars()
    if not missing:
        print(f"jars are in place: {jars_folder()}")
        return 0
    print(
        f"fetching {', '.join(missing)} and what they need from Maven Central (about 110 MB, once) ...",
        flush=True,
    )
    for number, (packages, _) in enumerate(GROUPS):
        if set(packages) & set(missing):
            # A JVM resolves once, when it starts: each group has one of its own.
            call = f"from lakehouse.spark.jars import resolve; resolve({number})"
            subprocess.run([sys.executable, "-c", call], check=False)
    if missing_jars():
        print(f"still missing: {', '.join(missing_jars())}; is Maven Central reachable?", file=sys.stderr)
        return 1
    print(f"fetched into {jars_folder()}")
    return 0


def resolve(number: int) -> None:
    """Fetch one of the groups in this process."""
    from lakehouse.spark.session import resolve_jars

    packages, left_out = GROUPS[number]
    resolve_jars(packages, left_out, jars_folder())


if __name__ == "__main__":
    raise SystemExit(main())
