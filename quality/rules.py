"""The rules of ``expectations.toml`` as values, checked while they are read."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lakehouse.config.sections import QualitySettings
from lakehouse.spark.deviations import Frame

DECLARED = Path(__file__).with_name("expectations.toml")


@dataclass(frozen=True)
class Rule:
    """The largest value that a metric of a table's frame may take, and that rule in a sentence."""

    table: str
    metric: str
    at_most: float | str
    says: str

    @classmethod
    def of(cls, frame: Frame) -> Sequence[Rule]:
        """Return the rules about a frame: those of ``expectations.toml``, or those that its stream declares."""
        own = [cls(frame.table, metric, 0, says) for metric, says in frame.says.items()]
        return own or load_rules()[frame.table]

    def limit(self, settings: QualitySettings) -> float:
        """Return the largest value allowed, looked up where the rule names a setting."""
        return float(getattr(settings, self.at_most)) if isinstance(self.at_most, str) else self.at_most


@cache
def load_rules(path: Path = DECLARED) -> Mapping[str, Sequence[Rule]]:
    """Return the rules by table, in the order of the file.

    Raises ValueError when a rule has a missing or unknown field, or names a setting that does not exist.
    """
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return {table: [_rule(path, table, rule) for rule in rules] for table, rules in tables.items()}


def _rule(path: Path, table: str, rule: dict[str, Any]) -> Rule:
    if set(rule) != {"metric", "at_most", "says"}:
        raise ValueError(f"{path}: a rule of {table} has {sorted(rule)}; expected at_most, metric and says")
    limit = rule["at_most"]
    if isinstance(limit, str) and limit not in QualitySettings.model_fields:
        known = ", ".join(QualitySettings.model_fields)
        raise ValueError(f"{path}: {table}.{rule['metric']}: no setting {limit!r}; expected one of {known}")
    return Rule(table=table, **rule)
