"""``python -m tests.support.durations [JUNIT.xml]``: record how long groups of tests take; the longest start a run.

By default from what the last ``make test`` has written. Prints the seconds of all tests and the longest group, which no
run can be shorter than.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

from tests.conftest import DURATIONS, group_of

REPORT = "build/tests.xml"
# Shorter groups fill the end of a run in whatever order they come.
LEAST_S = 5


def main(junit: str = REPORT) -> None:
    """Write the seconds of every group that takes long, the longest first."""
    found: dict[str, float] = defaultdict(float)
    for test in ElementTree.parse(junit).getroot().iter("testcase"):
        found[group_of(nodeid(test.attrib))] += float(test.attrib["time"])
    longest = sorted(found.items(), key=lambda each: -each[1])
    kept = {group: round(seconds) for group, seconds in longest if seconds >= LEAST_S}
    DURATIONS.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    group, seconds = longest[0]
    print(f"{sum(found.values()):.0f} s of tests; the longest group is {group}: {seconds:.0f} s")


def nodeid(test: dict[str, str]) -> str:
    """Return the name of a test as pytest has it, from the dotted one of its module or class."""
    parts = test["classname"].split(".")
    modules = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    module = next((each for each in modules if Path(each.replace(".", "/") + ".py").exists()), parts[0])
    return f"{module.replace('.', '/')}.py::{test['name']}"


if __name__ == "__main__":
    main(*sys.argv[1:2])
