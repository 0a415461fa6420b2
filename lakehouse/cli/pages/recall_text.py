"""Text of a recall: what is asked for, and which periods reached it; the same for every kind of query."""

from lakehouse.cli.output import time_text
from lakehouse.cli.pages.explain_text import Columns, Facts, Table, of
from lakehouse.cli.pages.figures import share
from lakehouse.config.durations import format_duration


def recall_in_words(facts: Facts) -> str:
    """Return the recall asked for and its period; a dash for none."""
    return (
        "-" if facts["recall"] is None else f"{facts['recall']:g} over {format_duration(facts['period_us'])}"
    )


def target_in_words(facts: Facts) -> str:
    """Return the recall asked for, and what it is aimed at."""
    plan, asked = facts["plan"], f"recall {facts['recall']:g} over any {format_duration(facts['period_us'])}"
    if plan["margin"] is None:
        return asked
    return f"{asked}, aimed at {plan['judged_recall']:.6g}: margin {plan['margin']:.4g} of the allowed loss is used"


def periods_in_words(facts: Facts, results: str) -> str:
    """Return how many periods met the recall, and how many missed it."""
    whole = facts["completeness"]
    still = f", {whole['missed_open']:,} of them open" if whole["missed_open"] else ""
    still += f" (known since {whole['missed_since'][:16].replace('T', ' ')})" if whole["missed_since"] else ""
    return (
        f"periods: {whole['periods']:,} with {results}, {whole['scored']:,} scored (100 {results} or more), "
        f"{whole['met']:,} met {facts['recall']:g}, {whole['missed']:,} missed{still}"
    )


def worst_periods(results: str) -> Table:
    """Return the table of the worst periods."""
    columns: Columns = {
        "period": of("from_us", time_text),
        "until": of("to_us", time_text),
        "recall": of("recall", share),
        **{results: "pairs", "online": "online"},
        "state": of("open", lambda is_open: "open" if is_open else "repaired"),
    }
    worst = of("completeness", lambda whole: whole.get("worst", ()))
    return Table("worst periods, none overlapping another", worst, columns)
