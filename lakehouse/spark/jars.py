"""Which jars a session needs and where they are kept; no pyspark here, so that a check costs nothing.

Jars are resolved once from Maven Central (``python -m lakehouse.spark.jars``, part of ``make setup``) into
``$TIDEMARK_JARS`` or ``~/.cache/tidemark/jars``; sessions then start from there and need no network.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Delta's other dependencies are on Spark's own class path already; a second copy only slows the start.
_NOT_IN_SPARK = ("io.delta_", "io.unitycatalog_")
PACKAGES = ("io.delta:delta-spark_4.1_2.13:4.4.0",)


def jars_folder() -> Path:
    """Return the folder that resolved jars are kept in."""
    return Path(os.environ.get("TIDEMARK_JARS") or Path.home() / ".cache" / "tidemark" / "jars")


def missing_jars() -> list[str]:
    """Return the Maven coordinates that have not been resolved into ``jars_folder`` yet."""
    return [package for package in PACKAGES if not (jars_folder() / "jars" / _file_name(package)).is_file()]


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
        f"fetching {', '.join(missing)} and what they need from Maven Central (about 90 MB, once) ...",
        flush=True,
    )
    from lakehouse.spark.session import resolve_jars

    resolve_jars(PACKAGES, jars_folder())
    if missing_jars():
        print(f"still missing: {', '.join(missing_jars())}; is Maven Central reachable?", file=sys.stderr)
        return 1
    print(f"fetched into {jars_folder()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
