"""Schemas that this process reads of SQL beside those that Spark reads of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from lakehouse.spark.ddl import schema_of
from lakehouse.storage.tables.table_commits import as_json

TABLES = Path(__file__).parents[2] / "sql" / "tables"
OTHERS = (
    "`a b` decimal(38,3), c decimal(38, 0) NOT NULL, d array<array<string>>",
    "kind string, content binary, `left` double, f_x bigint COMMENT 'it''s; 1, 2 (3)', g smallint, h date, i float",
    "m map<string, array<struct<k: int, v: binary>>>, t timestamp, `o_größe` boolean",
)


def columns_of(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    for gap in ("columns", "groups", "keys", "measures", "parts"):
        text = text.replace("{" + gap + "}", "")
    return text[text.index("(\n") + 1 : text.index("\n) USING DELTA")]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_columns_are_those_that_spark_reads() -> None:
    texts = [*map(columns_of, sorted(TABLES.glob("*.sql"))), *OTHERS]

    assert len(texts) > 20
    for text in texts:
        assert json.loads(as_json(schema_of(text))) == StructType.fromDDL(text).jsonValue()


def test_a_type_that_no_table_has_is_refused() -> None:
    with pytest.raises(KeyError, match="INTERVAL"):
        schema_of("a interval day")
