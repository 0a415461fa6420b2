from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.config.sections import QualitySettings
from quality.rules import load_rules


def test_every_table_has_rules_and_every_rule_a_sentence() -> None:
    rules = load_rules()

    queries = {"batches", "scans", "repairs", "periods", "answers", "alarms"}
    assert set(rules) == {"ledger", "totals", "raw", "quarantine", "rollup"} | queries
    assert all(rule.says.endswith(".") for table in rules.values() for rule in table)


def test_a_rule_may_take_its_limit_from_the_settings() -> None:
    (share,) = (rule for rule in load_rules()["totals"] if rule.metric == "rejected_share")

    assert share.limit(QualitySettings(max_quarantined_share=0.25)) == 0.25


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            'metric = "rows"\nat_most = 0',
            r"a rule of raw has \['at_most', 'metric'\]; expected at_most, metric and says",
        ),
        (
            'metric = "rows"\nat_most = "most"\nsays = "x."',
            "raw.rows: no setting 'most'; expected one of max_quar",
        ),
    ],
)
def test_a_wrong_rule_is_refused_with_its_place(tmp_path: Path, rule: str, message: str) -> None:
    path = tmp_path / "expectations.toml"
    path.write_text(f"[[raw]]\n{rule}\n", encoding="utf-8")

    with pytest.raises(ValueError, match=message):
        load_rules(path)
