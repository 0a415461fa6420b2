from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakehouse.spark.catalog import WrongStatement, result_of


@pytest.mark.spark
def test_a_wrong_statement_is_refused_with_its_first_sentence(spark: SparkSession) -> None:
    with pytest.raises(WrongStatement, match=r"\[TABLE_OR_VIEW_NOT_FOUND\].*`raw`.`nope`[^\n]*$"):
        result_of(spark, "SELECT * FROM raw.nope")
