from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path

import pytest

from lakehouse.config.stream import Source
from lakehouse.ingest.sources.files import matching
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.storage.layout import Home


def source(folder: Path, **options: object) -> Source:
    return Source.model_validate({"path": f"{folder}/*", "format": "csv", "settle": 0} | options)


def test_files_are_cut_into_batches_by_count_and_bytes(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / name).write_text("x\n" + name * 10)
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))

    store.add_files(source(tmp_path, batch_files=3))

    assert [[Path(f.path).name for f in m.files] for m in store.behind(0)] == [["a", "b", "c"], ["d"]]


def test_file_is_handed_out_once_however_often_it_is_listed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n1\n")
    ManifestStore(Home(tmp_path / "var").manifests("s")).add_files(source(tmp_path))

    again = ManifestStore(Home(tmp_path / "var").manifests("s"))

    assert (again.add_files(source(tmp_path)), again.last_batch) == (0, 1)


@pytest.mark.parametrize("name", [".hidden", "_log", "a.tmp", "b.part", "c.inprogress"])
def test_unfinished_and_hidden_names_are_not_taken(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x\n1\n")
    assert ManifestStore(Home(tmp_path / "var").manifests("s")).add_files(source(tmp_path)) == 0


def test_what_is_no_file_or_has_gone_since_it_was_listed_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n1\n")
    (tmp_path / "b").symlink_to(tmp_path / "nothing")
    (tmp_path / "c").mkdir()
    os.mkfifo(tmp_path / "d")
    (tmp_path / "e").write_text("x\n1\n")
    found = matching(source(tmp_path))
    first, _ = next(found)

    (tmp_path / "e").unlink()

    assert (Path(first).name, list(found)) == ("a", [])


def test_file_still_being_written_waits_until_it_has_settled(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n1\n")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    assert store.add_files(source(tmp_path, settle="1h")) == 0

    os.utime(tmp_path / "a", (1, 1))

    assert store.add_files(source(tmp_path, settle="1h")) == 1


def test_file_of_another_size_than_when_it_was_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n1\n")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    store.add_files(source(tmp_path))

    (tmp_path / "a").write_text("x\n2\n3\n")

    assert store.new_files(source(tmp_path)) == []
    assert store.changed_files == ["a changed after it was read, not read again; give it a new name"]


def test_file_corrected_in_place_is_told_of_until_it_is_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n21.5\n")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    store.add_files(source(tmp_path))
    told = list[list[str]]()

    for content, time_s in (("x\n22.5\n", 7), ("x\n22.5\n", 7), ("x\n21.5\n", 8)):
        (tmp_path / "a").write_text(content)
        os.utime(tmp_path / "a", (time_s, time_s))
        store.new_files(source(tmp_path))
        told.append(store.changed_files)

    sentence = "a changed after it was read, not read again; give it a new name"
    assert told == [[sentence], [sentence], []]


def test_file_that_only_grew_is_told_of_with_how_much(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n1\n")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    store.add_files(source(tmp_path))

    (tmp_path / "a").write_text("x\n1\n2\n")
    store.new_files(source(tmp_path))

    assert store.changed_files == [
        "a grew by 2 bytes after it was read; these are not read: declare append = true, or give them a new name"
    ]


def test_files_restored_without_their_times_are_compared_once_and_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / name).write_text(f"x\n{name}\n")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    store.add_files(source(tmp_path))
    read = list[str]()

    def watched(event: str, what: tuple[object, ...]) -> None:
        if event == "open" and isinstance(what[0], str) and Path(what[0]).parent == tmp_path:
            read.append(Path(what[0]).name)

    for name in "abc":
        os.utime(tmp_path / name, (1, 1))
    sys.addaudithook(watched)
    for _ in range(3):
        assert (store.new_files(source(tmp_path)), store.changed_files) == ([], [])

    assert sorted(read) == list("abc")


def test_a_landing_folder_that_is_moved_has_been_read(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    (before / "in" / "x").mkdir(parents=True)
    (before / "in" / "x" / "1.csv").write_text("x\n1\n")
    ManifestStore(Home(before / "var").manifests("s")).add_files(source(before, path=f"{before}/in/*/*.csv"))

    before.rename(after)
    store = ManifestStore(Home(after / "var").manifests("s"))

    assert [file.path for file in store.behind(0)[0].files] == ["x/1.csv"]
    assert store.new_files(source(after, path=f"{after}/in/*/*.csv")) == [] and store.changed_files == []


@pytest.mark.parametrize("is_compared", [False, True])
def test_a_file_met_again_under_another_name_is_told_of_and_read_only_to_be_compared(
    tmp_path: Path, is_compared: bool
) -> None:
    (tmp_path / "log.csv").write_text("x\n1\n")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))

    def add() -> int:
        return store.add_files(source(tmp_path), lambda _: True, is_compared)

    assert add() == 1
    (tmp_path / "log.csv").rename(tmp_path / "log.csv.1")
    (tmp_path / "log.csv").write_text("x\n2\n")
    os.utime(tmp_path / "log.csv", (5, 5))
    read = add()

    [repeat] = store.behind(0)[-1].repeats
    assert (repeat.file.path, repeat.read_as, repeat.batch, read) == ("log.csv.1", "log.csv", 1, is_compared)
    assert str(repeat).startswith("log.csv.1 has the content of log.csv read in batch 1; ")
    assert [file.path for file in store.behind(0)[-1].files] == ["log.csv.1"] * is_compared
    assert add() == 0 and ManifestStore(store.part).behind(0) == store.behind(0)


def test_two_new_files_of_one_content_are_read_once(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("x\n1\n" if name != "b" else "x\n2\n")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))

    assert store.add_files(source(tmp_path), lambda _: True) == 2

    assert [str(each) for each in store.behind(0)[0].repeats] == [
        "c has the content of a read in batch 1; not read again"
    ]


def test_header_with_a_byte_order_mark_and_spaces_is_read_clean(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress("\ufeff time , temp\n1,2\n".encode()))
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    store.add_files(source(tmp_path))
    assert store.behind(0)[0].files[0].fields == ("time", "temp")


def test_zeek_header_names_the_fields(tmp_path: Path) -> None:
    (tmp_path / "conn.log").write_text("#separator \\x09\n#fields\tts\tuid\n1.0\tx\n")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    store.add_files(source(tmp_path, format="zeek"))
    assert store.behind(0)[0].files[0].fields == ("ts", "uid")


@pytest.mark.parametrize(
    ("format", "head"), [("zeek", b"#fields" + b"\tn" * 5001), ("csv", b"n," * 5000 + b"n")]
)
def test_a_header_of_very_many_fields_is_refused_with_their_number(
    tmp_path: Path, format: str, head: bytes
) -> None:
    (tmp_path / "wide.log").write_bytes(head + b"\n1\n")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    store.add_files(source(tmp_path, format=format))
    told = store.behind(0)[0].files[0].unreadable or ""
    assert told.endswith("its header has 5001 fields; expected at most 5000")


def test_file_that_is_no_gzip_is_handed_out_with_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_text("this is not gzip")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    store.add_files(source(tmp_path))
    assert "incorrect header check" in (store.behind(0)[0].files[0].unreadable or "")


def test_manifest_reads_back_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x,é\n1,2\n")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    store.add_files(source(tmp_path))
    store.add_requeue(("clock",))

    again = ManifestStore(store.part).behind(0)

    assert again == store.behind(0) and [each.kind for each in again] == ["files", "requeue"]
    assert again[0].files[0].fields == ("x", "é")


def test_columns_gained_lost_and_retyped_are_told_with_the_batch_that_brings_them(tmp_path: Path) -> None:
    records = [
        '{"ts": 1, "temp": 2.5}',
        '{"ts": 2, "temp": "warm", "gps": {"lat": 1}}',
        '{"ts": 3, "temp": null}',
    ]
    for number, record in enumerate(records):
        (tmp_path / f"{number}.ndjson").write_text(record + "\n")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))

    store.add_files(source(tmp_path, format="ndjson", batch_files=1))

    assert [
        manifest.schema_changes for manifest in ManifestStore(Home(tmp_path / "var").manifests("s")).behind(0)
    ] == [
        (),
        ("1.ndjson: gained gps.lat", "1.ndjson: temp was number, is string"),
        ("2.ndjson: lost gps.lat",),
    ]


def test_header_names_are_columns_and_one_that_comes_back_is_no_gain(tmp_path: Path) -> None:
    for name, header in {"a": "ts,temp", "b": "ts", "c": "ts,temp"}.items():
        (tmp_path / name).write_text(header + "\n1,2\n")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))

    store.add_files(source(tmp_path))

    assert store.behind(0)[0].schema_changes == ("b: lost temp",)


def test_a_file_that_breaks_off_is_still_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = gzip.compress(b'{"ts": 1}\n' * 50)
    (tmp_path / "a.ndjson.gz").write_bytes(whole[: len(whole) - 6])
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))

    store.add_files(source(tmp_path, format="ndjson"))

    assert store.behind(0)[0].files[0].unreadable is None


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        ("at,Core Temp,GPU,Core Temp", ("at", "Core Temp", "GPU", "Core Temp_1")),
        ("a,a,a_1,a", ("a", "a_2", "a_1", "a_3")),
        ("a_1,a,a, a ", ("a_1", "a", "a_2", "a_3")),
        # Names are the same only where every letter is.
        ("Temp,temp,TEMP", ("Temp", "temp", "TEMP")),
        ("at,x,,", ("at", "x", "", "_1")),
        ('\ufeff"at","x, y","x, y"', ("at", "x, y", "x, y_1")),
    ],
)
def test_names_that_a_header_repeats_are_numbered(
    tmp_path: Path, header: str, fields: tuple[str, ...]
) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n1\n", encoding="utf-8")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    store.add_files(source(tmp_path))
    assert store.behind(0)[0].files[0].fields == fields


def test_a_repeated_name_is_reported_with_the_batch_that_meets_it_first(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(f"at,Temp,Temp{',x' if name == 'c' else ''}\n1,2,3\n")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))

    store.add_files(source(tmp_path, batch_files=1))

    assert [manifest.schema_changes for manifest in store.behind(0)] == [
        ("a: Temp_1 is text, another field named 'Temp'",),
        (),
        ("c: gained x",),
    ]


def test_names_that_are_not_utf8_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("at,Temp [°C],Temp [µC]\n".encode("latin-1") + b"1,2,3\n")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))

    store.add_files(source(tmp_path))

    assert store.behind(0)[0].files[0].fields == ("at", r"Temp [\xb0C]", r"Temp [\xb5C]")
    assert (
        store.behind(0)[0].schema_changes[0]
        == r"a: Temp [\xb0C] is text, a name with bytes that are not UTF-8"
    )
