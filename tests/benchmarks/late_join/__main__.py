"""Window joins of late streams: recall, wait, memory and speed against waiting; one JSON object, and pages.

    python -m tests.benchmarks.late_join [--quick] [--json] [PART ...]

A full run writes docs/benchmarks/late_join.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from typing import Any

# Each has figures(quick) -> dict; a full run takes minutes and writes pages.
PARTS = (
    "tests.benchmarks.late_join.streams",
    "tests.benchmarks.late_join.figures",
    "tests.benchmarks.late_join.sweeps",
    "tests.benchmarks.late_join.real",
    "tests.benchmarks.late_join.speed",
    "tests.benchmarks.late_join.repair",
    "tests.benchmarks.late_join.spark_join",
)


def main() -> None:
    """Run every part and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, about a minute, no pages")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    names = [part.rsplit(".", 1)[1] for part in PARTS]
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these: {', '.join(names)}")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(names):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    found: dict[str, Any] = {}
    for name, part in zip(names, PARTS, strict=True):
        if asked.parts and name not in asked.parts:
            continue
        started = time.perf_counter()
        found |= importlib.import_module(part).figures(asked.quick)
        print(f"{name:12} {time.perf_counter() - started:6.1f} s", file=sys.stderr)
    if asked.json:
        print(json.dumps(found))
    else:
        print("\n".join(f"{name:28} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
