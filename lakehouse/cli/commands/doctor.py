"""``tidemark doctor``: check this machine and the home, with a fix for each problem."""

import typer

from lakehouse.cli.options import AsJson, globals_of
from lakehouse.cli.output import print_json, print_table

EXAMPLES = ("tidemark doctor", "tidemark --home /data/tidemark doctor --json")


def doctor(context: typer.Context, as_json: AsJson = False) -> int:
    """Check this machine and the home, and say how to fix each problem.

    Checks Java, versions that must match, jars, ports and configuration, and of the home last runs, quarantine and
    clocks. Exit code 1 if something is wrong; warnings do not count.
    """
    from dataclasses import asdict

    from lakehouse.doctor import examine

    given = globals_of(context)
    findings = examine(given.config, given.home)
    wrong = sum(finding.state == "wrong" for finding in findings)
    if as_json:
        print_json({"ok": not wrong, "checks": [asdict(finding) for finding in findings]})
    else:
        print_table(
            ("check", "state", "found", "what to do"), [(f.check, f.state, f.found, f.fix) for f in findings]
        )
        print(f"{wrong} wrong" if wrong else "ready")
    return 1 if wrong else 0
