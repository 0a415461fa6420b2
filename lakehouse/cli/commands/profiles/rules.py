"""``tidemark rules``: the rules of a stream in sentences, or a proposal of rules from its profile."""

from datetime import datetime
from typing import Annotated

import typer

from lakehouse.cli.options import AsJson, WrongUsage, declared, globals_of
from lakehouse.cli.output import print_json, print_table

EXAMPLES = ("tidemark rules telemetry", "tidemark rules telemetry --propose >> tidemark.toml")


def rules(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(help="A declared stream.")],
    propose: Annotated[
        bool, typer.Option("--propose", help="Print rules that hold of the rows of the last days as TOML.")
    ] = False,
    days: Annotated[int, typer.Option(min=1, max=366, help="Propose by so many days.")] = 28,
    as_json: AsJson = False,
) -> None:
    """Show a stream's rules in sentences, or propose some.

    A proposal rests on the profile of the last days: ranges of numbers with a margin, shares of missing values, sets of
    values of keys that have few, gaps and volume. Look at each line before it is pasted: it says what was, not what
    should be.
    """
    settings = globals_of(context).settings()
    declared(settings, [stream])
    one = settings.streams[stream]
    if propose:
        from lakehouse.propose.rules import as_toml, proposed_rules
        from lakehouse.storage.profiles import DAY_US, day_text, last_day, read_profile

        last = last_day(settings.layout, stream)
        if last is None:
            raise WrongUsage(
                f"no row of {stream} is there yet: rules are proposed by rows; see `tidemark run`"
            )
        from_us = max(last - (days - 1) * DAY_US, 0)
        proposed = proposed_rules(one, read_profile(settings.layout, stream, from_us, last + DAY_US))
        if as_json:
            print_json(proposed)
        else:
            span = f"{day_text(from_us)} to {day_text(last)}"
            print(f"# Rules of {stream} by its rows of {span}, printed at {datetime.now():%Y-%m-%d}.")
            print(as_toml(stream, proposed))
        return
    shown = [{"name": rule.name, "says": rule.sentence, "on_failure": rule.on_failure} for rule in one.rules]
    if as_json:
        print_json(shown)
    elif shown:
        print_table(tuple(shown[0]), [tuple(row.values()) for row in shown])
    else:
        print(f"{stream} has no rules of its own; `tidemark rules {stream} --propose` proposes some")
