from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from lakehouse.collect import host
from lakehouse.collect.collector import collect
from lakehouse.collect.host import Host
from lakehouse.config.stream import Stream
from lakehouse.settings import load_settings
from lakehouse.storage.control.lease import LeaseHeld, lease
from lakehouse.storage.layout import Home

NOW = 1_767_225_600_000_000


def declared(folder: Path) -> list[Stream]:
    text = "".join(
        f'[streams.{name}]\npreset = "{preset}"\nsource.every = "300ms"\n'
        for name, preset in (("host", "host"), ("sockets", "host-connections"))
    )
    (folder / "tidemark.toml").write_text(text)
    return list(load_settings(folder / "tidemark.toml").streams.values())


def stop_after(calls: int) -> Any:
    """A function that says to stop at its so-many-th call; between calls 0.2 s pass."""
    left = iter(range(calls))
    return lambda: next(left, None) is None


@pytest.mark.slow
def test_samples_land_at_their_interval_and_the_end_leaves_nothing_behind(tmp_path: Path) -> None:
    told: list[str] = []

    done = collect(declared(tmp_path), Home(tmp_path / "var"), stop_after(6), told.append)

    for pulse, name in zip(done, ("host", "sockets"), strict=True):
        files = sorted((tmp_path / "landing" / name).glob("*.ndjson"))
        records = [json.loads(line) for path in files for line in path.read_text().splitlines()]
        assert (len(records), len(files)) == (pulse.messages, pulse.files)
        assert len({record["ts"] for record in records}) >= 2 or name == "sockets"
        beat = json.loads((tmp_path / "var" / "heartbeats" / f"collect-{name}.json").read_text())
        assert (beat["state"], beat["messages"], beat["waiting_bytes"]) == ("stopped", pulse.messages, 0)
    assert any("host: landed host-" in line for line in told)
    assert not list(tmp_path.rglob("*.part"))


def test_two_collectors_of_one_stream_are_one_too_many(tmp_path: Path) -> None:
    streams = declared(tmp_path)
    (tmp_path / "landing" / "host").mkdir(parents=True)
    home = Home(tmp_path / "var")
    with lease(home, tmp_path / "landing" / "host" / "host"), pytest.raises(LeaseHeld):
        collect(streams, home, stop_after(1), print)


def test_readings_have_a_sensor_a_part_and_a_unit() -> None:
    records = Host(NOW).sensors(NOW + 10**6)

    assert {"cpu", "load", "memory", "memory_available"} <= {record["sensor"] for record in records}
    assert all(set(record) == {"ts", "host", "sensor", "part", "value", "unit"} for record in records)
    assert len({(record["sensor"], record["part"]) for record in records}) == len(records)
    assert all(0 <= r["value"] <= 100 for r in records if r["unit"] == "percent" and r["sensor"] != "cpu")


def test_rates_are_what_counters_grew_by_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = iter(
        [[(("net_sent", "eth0"), 1000)], [(("net_sent", "eth0"), 3000)], [(("net_sent", "eth0"), 5)]]
    )
    monkeypatch.setattr(host, "_counters", lambda: next(counted))
    machine = Host(NOW)

    rates = [
        [record["value"] for record in machine.sensors(NOW + at) if record["unit"] == "B/s"]
        for at in (2_000_000, 3_000_000)
    ]

    assert rates == [[1000.0], []]


def test_a_sensor_that_is_not_there_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(psutil, "virtual_memory", absent)
    monkeypatch.delattr(psutil, "sensors_temperatures", raising=False)
    monkeypatch.setattr(psutil, "sensors_battery", absent, raising=False)

    sensors = {record["sensor"] for record in Host(NOW).sensors(NOW + 10**6)}

    assert "cpu" in sensors and not sensors & {"memory", "temperature", "battery"}


def test_connections_have_both_ends_and_the_process_where_it_may_be_seen() -> None:
    import socket

    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        records = Host(NOW).connections(NOW)
        near, far = client.getsockname()[1], server.getsockname()[1]

    [found] = [r for r in records if (r.get("src_port"), r.get("dst_port")) == (near, far)]
    assert (found["proto"], found["status"], found["src"], found["dst"]) == (
        *("tcp", "established"),
        *("127.0.0.1", "127.0.0.1"),
    )
    assert found["process"] == psutil.Process().name()


def test_without_root_the_connections_of_our_own_processes_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(**_: object) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", denied)
    monkeypatch.setattr(psutil, "process_iter", lambda: [psutil.Process()])
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        records = Host(NOW).connections(NOW)

    assert [(r["src_port"], r["status"]) for r in records if r.get("src_port") == port] == [(port, "listen")]
