"""Folded manifests inside a lakehouse: files are not read again, and quarantine knows the headers of their lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobs import ingest, maintain
from lakehouse.ingest.drain import IngestRefused
from lakehouse.settings import load_settings
from tests.support.readings_lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.spark
T0 = 1_600_000_000
TOO_EARLY = T0 + 40 * 86_400


@pytest.fixture(autouse=True)
def few_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fold all finished manifests but the last."""
    monkeypatch.setattr("lakehouse.ingest.sources.manifest_store.RECENT", 1)


def folded(stream: Lake) -> int:
    return int(maintain.run(stream.settings, stream.spark, "readings")["manifests_folded"])


def test_open_records_are_taken_under_the_headers_of_their_files_and_no_file_twice(
    lake: Callable[..., Lake], tmp_path: Path
) -> None:
    stream = lake("csv")
    stream.land("a.csv", f"ts,received,device,temp,count\n{T0},{T0},a,1.5,1\n{T0},{TOO_EARLY},b,2.5,2\n")
    stream.ingest()
    stream.land("b.csv", f"count,temp,device,received,ts\n3,3.5,c,{TOO_EARLY},{T0}\n4,4.5,d,{T0},{T0}\n")
    stream.ingest()
    stream.land("c.csv", f"ts,received,device,temp,count\n{T0},{T0},e,5.5,5\n")
    stream.ingest()
    assert folded(stream) == 2
    assert (stream.ingest()["files"], folded(stream)) == (0, 0)
    config = tmp_path / "tidemark.toml"
    config.write_text(config.read_text().replace('behind = "30d"', 'behind = "90d"'))
    mended = Lake(stream.spark, load_settings(config))

    counts = mended.requeue()

    assert (counts["requeued"], counts["accepted"], folded(mended)) == (2, 2, 1)
    expected = [("a", 1.5, 1), ("b", 2.5, 2), ("c", 3.5, 3), ("d", 4.5, 4), ("e", 5.5, 5)]
    assert mended.rows("raw", "device", "temp", "count") == expected
    assert mended.requeue()["requeued"] == 0
    assert mended.rows("ledger", "batch", "received", "requeued") == [
        *((1, 2, 0), (2, 2, 0), (3, 1, 0), (4, 0, 2), (5, 0, 0))
    ]


def test_a_home_that_lost_what_was_folded_is_refused_before_anything_is_read_twice(
    lake: Callable[..., Lake],
) -> None:
    stream = lake()
    for name in "abc":
        stream.land(f"{name}.ndjson", f'{{"ts": {T0}, "received": {T0}, "device": "{name}"}}\n')
        stream.ingest()
    folded(stream)
    (stream.settings.layout.manifests("readings") / "folded.sqlite").unlink()

    with pytest.raises(IngestRefused, match=r"the manifest of batch 1 is in .*neither.*restore that folder"):
        ingest.run(stream.settings, stream.spark, "readings")
    assert len(stream.rows("raw", "device")) == 3
