"""Try faults, print what came of them, and write tests/faults/results/report.md.

    python -m tests.faults [--quick] [--json] [PART ...]

Without names every part. ``--quick`` tries a few of each and writes nothing. The exit code is 1 where something broke.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import date
from importlib import import_module

from tests.faults import report


def main() -> int:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(report.ROWS))
    parser.add_argument("--quick", action="store_true", help="a few of each")
    parser.add_argument("--json", action="store_true", help="an object per part")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(report.ROWS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected some of {', '.join(report.ROWS)}")
    is_broken = False
    for part in asked.parts or report.ROWS:
        started = time.perf_counter()
        found = import_module(f"tests.faults.{part}").run(asked.quick, report.told)
        found |= {"seconds": round(time.perf_counter() - started), "on": date.today().isoformat()}
        print(json.dumps({"part": part, **found}) if asked.json else _in_words(part, found), flush=True)
        is_broken |= bool(found["broken"])
        if not asked.quick:
            report.write({part: found})
    return int(is_broken)


def _in_words(part: str, found: dict[str, object]) -> str:
    figures = ", ".join(
        f"{name} {value}" for name, value in found.items() if name not in ("broken", "said", "on")
    )
    broken = found["broken"]
    assert isinstance(broken, list)
    return "\n".join([f"{part}: {figures}, broken {len(broken)}", *(f"  {each}" for each in broken)])


if __name__ == "__main__":
    sys.exit(main())
