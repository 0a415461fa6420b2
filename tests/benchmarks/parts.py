"""The command line of a benchmark made of parts, each a module with ``figures(quick) -> dict``."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Sequence
from typing import Any


def run_parts(description: str | None, parts: Sequence[str], quick: str) -> None:
    """Run the parts that the command line names, all by default, and print their figures; ``quick`` says what it is."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    names = [part.rsplit(".", 1)[1] for part in parts]
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these: {', '.join(names)}")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(names):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    found: dict[str, Any] = {}
    for name, part in zip(names, parts, strict=True):
        if asked.parts and name not in asked.parts:
            continue
        started = time.perf_counter()
        found |= importlib.import_module(part).figures(asked.quick)
        print(f"{name:12} {time.perf_counter() - started:6.1f} s", file=sys.stderr)
    if asked.json:
        print(json.dumps(found))
    else:
        print("\n".join(f"{name:28} {value}" for name, value in found.items()))
