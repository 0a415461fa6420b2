from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_files import dataset
from lakehouse.storage.tables.table_log import read_log
from quality.gate import Verdict
from quality.history import append

AT_ONCE = 4


def test_first_verdicts_of_many_streams_at_once_are_all_kept(tmp_path: Path) -> None:
    for number in range(3):
        home, begin = Home(tmp_path / str(number)), Barrier(AT_ONCE)

        def check(stream: str, home: Home = home, begin: Barrier = begin) -> None:
            begin.wait()
            append(home, stream, 1, [Verdict(stream, "totals", "imbalance", True, 0.0, "at most 0", "")])

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(check, [f"stream_{each}" for each in range(AT_ONCE)]))

        log = read_log(home.quality)
        assert log is not None
        assert dataset(list(log.files)).count_rows() == AT_ONCE
