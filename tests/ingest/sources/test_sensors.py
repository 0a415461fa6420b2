"""Uplinks of LoRaWAN networks and states of Home Assistant, as they send them, by their presets alone."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.settings import Settings
from tests.ingest.no_session import no_session
from tests.support.readings_lake import Lake

Preset = Callable[..., Lake]
RECEPTION = ("device", "gateway", "frame", "rssi", "snr")

CHIRPSTACK = {
    "deduplicationId": "7658d04d-7f1c-4eb6-900b-d948f3061a9d",
    "time": "2025-06-13T12:44:52.653+00:00",
    "deviceInfo": {"deviceName": "hall", "devEui": "24e124538b223213", "tags": {}},
    "fCnt": 153,
    "fPort": 84,
    "data": "AXU9AwABBAAB",
    "object": {"temperature": 21.5},
    "rxInfo": [
        {
            "gatewayId": "e4e124dadef64eee",
            "uplinkId": 25127,
            "gwTime": "2025-06-13T12:44:52.653481+00:00",
            "nsTime": "2025-06-13T12:44:52.670509207+00:00",
            "rssi": -68,
            "snr": 13.2,
            "location": {},
            "crcStatus": "CRC_OK",
        },
        {
            "gatewayId": "0011502df4563610",
            "uplinkId": 144484,
            "nsTime": "2025-06-13T12:44:53.316547901+00:00",
            "rssi": -101,
        },
    ],
    "txInfo": {"frequency": 867300000},
}
TTN = {
    "end_device_ids": {
        "device_id": "red",
        "application_ids": {"application_id": "rooms"},
        "dev_eui": "9876B600001193E0",
    },
    "received_at": "2021-09-14T20:38:54.229698936Z",
    "uplink_message": {
        "f_cnt": 1672,
        "decoded_payload": {"co2": 412},
        "rx_metadata": [
            {
                "gateway_ids": {"gateway_id": "b827ebfffea53db3", "eui": "B827EBFFFEA53DB3"},
                "time": "2021-09-14T20:56:08.912647Z",
                "rssi": -117,
                "snr": -8.2,
            },
            {"gateway_ids": {"gateway_id": "packetbroker"}, "rssi": -119, "snr": -9.5},
            {"gateway_ids": {"gateway_id": "packetbroker"}, "rssi": -119, "snr": -9.5},
        ],
        "settings": {"data_rate": {"lora": {"bandwidth": 125000, "spreading_factor": 9}}},
        "received_at": "2021-09-14T20:38:54.020897204Z",
    },
}
HELIUM = {
    "dev_eui": "1C29FBD1D2084E21",
    "fcnt": 19,
    "hotspots": [
        {"id": "11KHJ", "name": "icy-fiery-hippo", "reported_at": 1586868546123, "rssi": -54, "snr": 9.8},
        {"id": "11ni2", "name": "cool-chiffon-hornet", "reported_at": 1586868546125, "rssi": -51, "snr": 9},
    ],
    "payload": "SGVsbG8sIHdvcmxkIQ==",
    "reported_at": 1586868546123,
}


@pytest.fixture
def preset(lakehouse_of: Callable[[str], Settings]) -> Preset:
    """Return a lakehouse of one stream that rests on a preset."""

    def make(name: str, more: str = "", path: str = "landing/*", source: str = "") -> Lake:
        text = f'home = "var"\n[streams.s]\npreset = "{name}"\n{more}\n'
        text += f'[streams.s.source]\npath = "{path}"\nsettle = 0\n{source}\n'
        settings = lakehouse_of(text)
        return Lake(no_session(settings), settings, "s")

    return make


def lines(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize(
    ("name", "uplink", "received", "expected"),
    [
        (
            "chirpstack",
            CHIRPSTACK,
            2,
            [
                ("24e124538b223213", "0011502df4563610", 153, -101.0, None),
                ("24e124538b223213", "e4e124dadef64eee", 153, -68.0, 13.2),
            ],
        ),
        (
            "ttn",
            TTN,
            3,
            [
                ("9876B600001193E0", "b827ebfffea53db3", 1672, -117.0, -8.2),
                ("9876B600001193E0", "packetbroker", 1672, -119.0, -9.5),
                ("9876B600001193E0", "packetbroker", 1672, -119.0, -9.5),
            ],
        ),
        (
            "helium",
            HELIUM,
            2,
            [
                ("1C29FBD1D2084E21", "11KHJ", 19, -54.0, 9.8),
                ("1C29FBD1D2084E21", "11ni2", 19, -51.0, 9.0),
            ],
        ),
    ],
)
def test_every_reception_of_an_uplink_is_a_row_and_a_redelivery_adds_none(
    preset: Preset, name: str, uplink: Any, received: int, expected: list[Any]
) -> None:
    lake = preset(name)
    lake.land("1.ndjson", lines(uplink))
    lake.land("2.ndjson", lines(uplink))

    counts = lake.ingest()

    assert (counts["received"], counts["accepted"], counts["duplicates"]) == (
        2 * received,
        received,
        received,
    )
    assert lake.rows("raw", *RECEPTION) == expected


def test_event_and_arrival_are_the_networks_own(preset: Preset) -> None:
    """A gateway's wrong clock, 18 minutes ahead here, does not move its reception."""
    lake = preset("ttn")
    lake.land("1.ndjson", lines(TTN))

    lake.ingest()

    at = 1_631_651_934_000_000
    assert set(lake.rows("raw", "event_us", "arrival_us")) == {(at + 20_897, at + 229_698)}


def test_what_a_sensor_measured_is_a_column_of_ones_own(preset: Preset) -> None:
    more = '[streams.s.columns]\ntemp = { path = "object.temperature", type = "double" }'
    lake = preset("chirpstack", f'measures = ["rssi", "temp"]\n{more}')
    lake.land("1.ndjson", lines(CHIRPSTACK))

    lake.ingest()

    assert lake.rows("raw", "temp") == [(21.5,), (21.5,)]


def state(value: str, at: str, unit: str | None = "°C") -> dict[str, Any]:
    attributes = {"friendly_name": "Kitchen"} | ({"unit_of_measurement": unit} if unit else {})
    return {
        "entity_id": "sensor.kitchen",
        "state": value,
        "attributes": attributes,
        "last_changed": at,
        "last_updated": at,
    }


def test_states_that_are_no_numbers_are_kept_as_they_are(preset: Preset) -> None:
    lake = preset("home-assistant")
    at = "2016-11-26T01:37:{}.265390+00:00"
    lake.land("1.ndjson", lines(state("21.5", at.format(24)), state("unavailable", at.format(25), None)))

    counts = lake.ingest()

    assert (counts["accepted"], counts["quarantined"]) == (2, 0)
    assert lake.rows("raw", "entity", "state", "value", "unit") == [
        ("sensor.kitchen", "21.5", 21.5, "°C"),
        ("sensor.kitchen", "unavailable", None, None),
    ]


def test_an_export_of_the_history_panel_needs_the_name_of_its_time_only(preset: Preset) -> None:
    more = 'event_time = { column = "last_changed", unit = "iso" }\nidentity = ["entity", "last_changed"]'
    lake = preset("home-assistant", more, source='format = "csv"')
    lake.land("1.csv", "entity_id,state,last_changed\nsensor.kitchen,21.5,2024-03-01T10:00:00.000Z\n")

    lake.ingest()

    assert lake.rows("raw", "event_us", "value") == [(1_709_287_200_000_000, 21.5)]


def test_events_of_state_changes_are_rows(preset: Preset) -> None:
    event = {
        "event_type": "state_changed",
        "data": {
            "entity_id": "sensor.kitchen",
            "old_state": None,
            "new_state": state("22", "2016-11-26T01:37:24.265390+00:00"),
        },
        "origin": "LOCAL",
        "time_fired": "2016-11-26T01:37:24.265429+00:00",
    }
    lake = preset("home-assistant-events")
    removed = event | {
        "time_fired": "2016-11-26T01:37:25+00:00",
        "data": {"entity_id": "sensor.kitchen", "new_state": None},
    }
    lake.land("1.ndjson", lines(event, event, removed))

    counts = lake.ingest()

    assert (counts["accepted"], counts["duplicates"]) == (2, 1)
    assert lake.rows("raw", "event_us", "value") == [
        (1_480_124_244_265_429, 22.0),
        (1_480_124_245_000_000, None),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "files", "more"),
    [
        ("chirpstack-v3", "d1*", 'event_time = { column = "_timestamp", unit = "ms" }'),
        (
            "helium",
            "FTD*",
            'arrival_time = { column = "_timestamp", unit = "ms" }\nclock_bounds = { behind = "30d", ahead = "1h" }',
        ),
    ],
)
def test_all_receptions_of_real_uplinks_are_accounted_for(
    preset: Preset, data: Path, name: str, files: str, more: str
) -> None:
    lake = preset(name, more, path=f"{data}/lorawan-sensors/{files}.ndjson.gz")

    counts = lake.ingest()

    member = "rxInfo" if name == "chirpstack-v3" else "hotspots"
    (path,) = (data / "lorawan-sensors").glob(f"{files}.ndjson.gz")
    with gzip.open(path, "rt") as file:
        uplinks = [json.loads(line) for line in file]
    heard = [item for uplink in uplinks for item in uplink.get(member) or ()]
    unheard = sum(not uplink.get(member) for uplink in uplinks)
    assert counts["received"] == len(heard) + unheard
    assert counts["accepted"] + counts["duplicates"] == len(heard) - counts["quarantined"] + unheard
    assert lake.rows("ledger", "reasons")[0][0].get("no_items", 0) == unheard
    assert counts["accepted"] > 0.95 * len(heard)
