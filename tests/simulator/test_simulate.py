from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.config.problems import ConfigError
from lakehouse.simulator.plan import Delay, Faults, Plan
from lakehouse.simulator.simulate import FIRST_START_US, FORMS, next_number, simulate, write_file
from lakehouse.simulator.truth import read_truth
from tests.simulator.plans import HOUR_US, plans
from tests.simulator.reading import files_of, read_back

WITH_ALL = Faults(duplicates=0.05, conflicts=0.05, bad_clocks=0.05, dirt=0.1, gaps=0.1)


@given(plan=plans())
def test_the_truth_is_what_the_files_hold_when_they_are_read_again(plan: Plan) -> None:
    with TemporaryDirectory() as folder:
        truth = simulate(plan, Path(folder))
        seen = read_back(Path(folder), FORMS[plan.stream])

    assert (seen.received, seen.accepted, seen.duplicates) == (
        truth.received,
        truth.accepted,
        truth.duplicates,
    )
    assert dict(seen.reasons) == truth.reasons
    assert (seen.late, seen.max_lateness_us) == (truth.late, truth.max_lateness_us)
    assert {name: seen.missing[name] for name in truth.missing} == truth.missing
    assert {name: seen.sums.get(name, Decimal(0)) for name in truth.sums} == {
        name: Decimal(text) for name, text in truth.sums.items()
    }
    assert (min(seen.events_us, default=None), max(seen.events_us, default=None)) == (
        truth.min_event_us,
        truth.max_event_us,
    )
    assert truth.received == truth.accepted + truth.quarantined + truth.duplicates


@given(plan=plans())
def test_rows_are_as_many_as_asked_and_faults_are_exact_shares(plan: Plan) -> None:
    with TemporaryDirectory() as folder:
        truth = simulate(plan, Path(folder))

    shares = plan.faults
    copies = truth.duplicates + truth.reasons.get("conflict", 0)
    assert truth.received == plan.rows + copies
    assert abs(truth.duplicates - shares.duplicates * plan.rows) <= 1
    assert abs(truth.reasons.get("clock", 0) - shares.bad_clocks * plan.rows) <= 1
    assert abs(truth.withheld - plan.rows * shares.gaps / (1 - shares.gaps)) <= 1


@given(plan=plans())
@settings(max_examples=30)
def test_files_are_cut_in_order_of_arrival(plan: Plan) -> None:
    with TemporaryDirectory() as folder:
        simulate(plan, Path(folder))
        arrivals = read_back(Path(folder), FORMS[plan.stream]).arrivals_us

    assert arrivals == sorted(arrivals)


@given(plan=plans())
@settings(max_examples=30)
def test_the_same_plan_gives_the_same_bytes(plan: Plan) -> None:
    with TemporaryDirectory() as one, TemporaryDirectory() as two:
        simulate(plan, Path(one))
        simulate(plan, Path(two))

        assert _bytes(Path(one), plan.stream) == _bytes(Path(two), plan.stream)


def test_another_seed_gives_other_rows(tmp_path: Path) -> None:
    simulate(Plan("flows", 100, seed=1), tmp_path / "one")
    simulate(Plan("flows", 100, seed=2), tmp_path / "two")

    assert _bytes(tmp_path / "one", "flows") != _bytes(tmp_path / "two", "flows")


@pytest.mark.parametrize("stream", FORMS)
@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.9])
def test_exactly_the_share_asked_for_comes_late(tmp_path: Path, stream: str, share: float) -> None:
    faults = Faults(late=share, bad_clocks=0.05, dirt=0.07)

    truth = simulate(Plan(stream, 5000, delay=Delay("exponential"), faults=faults), tmp_path)

    assert truth.late == round(share * truth.accepted)


@pytest.mark.parametrize("stream", FORMS)
def test_without_delay_nothing_is_late(tmp_path: Path, stream: str) -> None:
    truth = simulate(Plan(stream, 2000, delay=Delay("none")), tmp_path)

    assert (truth.late, truth.max_lateness_us) == (0, 0)


def test_measured_connections_come_late_as_often_as_real_ones(tmp_path: Path) -> None:
    """The real log has 8,462 rows of a day, 42 % of them late."""
    truth = simulate(Plan("flows", 8462, delay=Delay("measured", max_us=86_400_000_000)), tmp_path)

    assert 0.15 < truth.late / truth.received < 0.5
    assert truth.max_lateness_us > 6 * HOUR_US


@given(plan=plans(faults=WITH_ALL), later=st.integers(1, 200))
@settings(max_examples=30)
def test_a_second_call_goes_on_in_time_and_repeats_nothing(plan: Plan, later: int) -> None:
    with TemporaryDirectory() as folder:
        first = simulate(plan, Path(folder))
        second = simulate(replace(plan, rows=later, files=1), Path(folder))
        both = read_truth(Path(folder), plan.stream)
        seen = read_back(Path(folder), FORMS[plan.stream])

    assert both == first + second
    assert not set(first.files) & set(second.files)
    assert second.end_us == first.end_us + plan.duration_us
    assert (seen.accepted, dict(seen.reasons)) == (both.accepted, both.reasons)


def test_a_name_is_not_taken_again_when_the_truth_is_lost(tmp_path: Path) -> None:
    plan = Plan("telemetry", 100, files=3)
    first = simulate(plan, tmp_path)
    (tmp_path / "telemetry.truth.json").unlink()

    second = simulate(plan, tmp_path)

    assert not set(first.files) & set(second.files)
    assert len(files_of(tmp_path, "telemetry")) == 6


def test_only_whole_files_are_in_the_landing_folder(tmp_path: Path) -> None:
    truth = simulate(Plan("flows", 100, files=4, gzip=True), tmp_path)

    assert tuple(path.name for path in files_of(tmp_path, "flows")) == truth.files
    assert not any((tmp_path / ".incoming").iterdir())


def test_a_start_inside_what_is_there_is_refused(tmp_path: Path) -> None:
    simulate(Plan("telemetry", 10, files=1), tmp_path)

    with pytest.raises(ConfigError, match="2026-01-02T00:00:00"):
        simulate(Plan("telemetry", 10, files=1, start_us=FIRST_START_US), tmp_path)


def test_an_unknown_stream_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'rivers'; expected one of telemetry, flows"):
        simulate(Plan("rivers", 10), tmp_path)


def test_every_kind_of_fault_is_there_when_it_is_asked_for(tmp_path: Path) -> None:
    truth = simulate(Plan("telemetry", 1000, faults=WITH_ALL), tmp_path)

    assert min(truth.kinds.values()) > 0
    assert len(truth.kinds) == 11
    assert files_of(tmp_path, "telemetry")[0].read_bytes().startswith(b"\xef\xbb\xbf")


def _bytes(landing: Path, stream: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files_of(landing, stream)}


def test_nothing_is_in_the_folder_before_the_file_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "landing" / "flows"
    seen: list[list[Path]] = []

    def pieces() -> Iterator[bytes]:
        for piece in (b"one\n", b"two\n"):
            seen.append(list(folder.iterdir()))
            yield piece

    write_file(folder, "flows-000001.csv", pieces())

    assert seen == [[], []]
    assert (folder / "flows-000001.csv").read_bytes() == b"one\ntwo\n"


def test_a_file_that_breaks_off_never_lands(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"one\n"
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        write_file(tmp_path / "flows", "flows-000001.csv", pieces())

    assert list((tmp_path / "flows").iterdir()) == []


def test_a_gz_file_has_the_same_bytes_at_any_time(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "x.csv.gz", [b"one\n"])
    write_file(tmp_path / "b", "x.csv.gz", [b"one\n"])

    content = (tmp_path / "a" / "x.csv.gz").read_bytes()
    assert gzip.decompress(content) == b"one\n"
    assert content == (tmp_path / "b" / "x.csv.gz").read_bytes()


def test_numbers_go_on_above_every_file_of_the_stream(tmp_path: Path) -> None:
    for name in ("flows-000002.csv", "flows-000011.csv.gz", "flows-old.csv", "telemetry-000044.ndjson"):
        (tmp_path / name).touch()

    assert next_number(tmp_path, "flows") == 12
    assert next_number(tmp_path / "none", "flows") == 1
