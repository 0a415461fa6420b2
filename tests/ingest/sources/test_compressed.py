from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tracemalloc
import zipfile
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.ingest.sources.compressed import ENDINGS, inflated, is_compressed


def zipped(content: bytes, *more: str, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.mkdir("a")
        for name in ("a/rows.csv", "__MACOSX/a/._rows.csv", *more):
            archive.writestr(name, content)
    return file.getvalue()


def zstd(content: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(content, asbytes=True))


PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
    ".zip": zipped,
}


def read(content: bytes, ending: str) -> tuple[bytes, str | None]:
    found = list(inflated(io.BytesIO(content), f"rows.csv{ending}"))
    assert all(fault is None for _, fault in found[:-1])
    return b"".join(block for block, _ in found), found[-1][1] if found else None


def test_every_ending_is_tried() -> None:
    assert tuple(PACKED) == ENDINGS
    assert is_compressed("a.csv.zst") and not is_compressed("a.gz.csv")


@given(parts=st.lists(st.binary(max_size=300), min_size=1, max_size=3), ending=st.sampled_from(ENDINGS[:4]))
def test_streams_one_after_the_other_are_one_file(parts: list[bytes], ending: str) -> None:
    content = b"".join(PACKED[ending](part) for part in parts)

    assert read(content, ending) == (b"".join(parts), None)


@given(content=st.binary(max_size=300))
def test_the_one_file_of_an_archive_is_read(content: bytes) -> None:
    assert read(zipped(content), ".zip") == (content, None)
    assert read(zipped(content, method=zipfile.ZIP_STORED), ".zip") == (content, None)


@pytest.mark.parametrize("ending", ENDINGS)
def test_of_a_file_that_is_cut_off_the_beginning_is_read_and_the_damage_named(ending: str) -> None:
    lines = b"".join(b"%d,%d\n" % (n, n * n) for n in range(200_000))
    whole = PACKED[ending](lines)

    content, fault = read(whole[: len(whole) * 2 // 3], ending)

    assert fault is not None and fault.startswith("truncated_file: ")
    assert lines.startswith(content)
    assert content or ending == ".zip"


@pytest.mark.parametrize("ending", ENDINGS)
@given(content=st.binary(max_size=200))
def test_whatever_stands_in_a_file_stops_nobody(ending: str, content: bytes) -> None:
    for each in (content, PACKED[ending](b"a,b\n") + content, PACKED[ending](b"a,b\n")[:-9] + content):
        read(each, ending)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (zipped(b"a", "second.csv"), "the archive holds 2 files ('a/rows.csv', 'second.csv'); expected one"),
        (zipped(b"a", method=zipfile.ZIP_LZMA), "compressed in another way than deflate"),
        (zipped(b"a", *(f"{n:0100}" for n in range(8000))), "no archive of one file"),
        (b"a,b\n1,2\n", "no archive of one file"),
    ],
)
def test_other_archives_are_refused(content: bytes, reason: str) -> None:
    found, fault = read(content, ".zip")

    assert found == b"" and fault is not None and reason in fault


@pytest.mark.parametrize("ending", ENDINGS)
def test_however_far_a_file_inflates_memory_is_bounded(ending: str) -> None:
    bomb = PACKED[ending](bytes(200_000_000)) if ending != ".bz2" else bz2.compress(bytes(200_000_000), 1)

    tracemalloc.start()
    size = sum(len(block) for block, _ in inflated(io.BytesIO(bomb), f"a{ending}"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (size, peak < 60_000_000) == (200_000_000, True)


def test_an_xz_file_that_asks_for_much_memory_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 * 1024 * 1024}]

    found, fault = read(lzma.compress(b"a,b\n", filters=filters), ".xz")

    assert found == b"" and fault is not None and "emory" in fault
