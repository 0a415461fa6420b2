"""The bridge against a real mosquitto, killed and restarted: what was published is landed, whatever happens."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse.collect.bridge import bridge as land
from lakehouse.settings import load_settings
from lakehouse.storage.layout import Home
from tests.support.brokers.mqtt import Bridge, Broker, numbered, publisher, wait_for
from tests.support.crash_points import LANDING_POINTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
Bridged = Callable[..., Bridge]


def is_running(bridge: Bridge) -> Callable[[], bool]:
    return lambda: bridge.beat().get("state") == "running"


def test_messages_land_and_a_stopped_bridge_leaves_nothing_behind(broker: Broker, bridged: Bridged) -> None:
    bridge = bridged(broker, 'roll_after = "1h"')
    process = bridge.start("--json")
    wait_for(is_running(bridge), "the bridge")
    with publisher(broker) as publish:
        publish([*numbered(300), ("air/x", b"\xff\xfe", False), ("other", b"1", False)])
    wait_for(lambda: len(bridge.lines()) == 301, "301 messages")
    assert not list(bridge.folder.glob("*.ndjson")), "nothing lands before roll_after, but all is safe"

    process.send_signal(signal.SIGTERM)

    out, err = process.communicate(timeout=5)
    assert process.returncode == 143
    assert json.loads(out) == {"stream": "air", "messages": 301, "repeated": 0, "files": 1}
    assert "begins a session" in err and "landed air-" in err
    records = [json.loads(line) for line in bridge.lines()]
    assert [record.get("payload") for record in records] == [*map(str, range(300)), None]
    assert records[-1]["payload_base64"] == "//4=" and not list(bridge.folder.glob("*.part"))
    received = [record["received"] for record in records]
    assert received == sorted(set(received))
    assert (bridge.beat()["state"], bridge.beat()["files"], bridge.beat()["waiting_bytes"]) == (
        "stopped",
        1,
        0,
    )


def test_what_comes_while_the_bridge_is_away_waits_with_the_broker(broker: Broker, bridged: Bridged) -> None:
    bridge = bridged(broker)
    first = bridge.start()
    wait_for(is_running(bridge), "the bridge")
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=240)
    with publisher(broker) as publish:
        publish(numbered(50))

    second = bridge.start()
    wait_for(lambda: len(bridge.lines()) == 50, "50 messages")
    second.send_signal(signal.SIGTERM)

    assert "goes on with a session" in second.communicate(timeout=240)[1]


def test_a_session_is_told_before_its_messages_and_not_only_once_the_broker_confirms_the_topics(
    broker: Broker, bridged: Bridged
) -> None:
    # Each message is safe at once, the first of them before the broker has confirmed.
    bridge = bridged(broker, "in_flight = 1")
    settings, told = load_settings(bridge.config), list[str]()
    arguments = (settings.streams["air"], Home(bridge.config.parent / "var"), None)
    land(*arguments, is_running(bridge), told.append)
    with publisher(broker) as publish:
        publish(numbered(5))

    land(*arguments, lambda: bool(bridge.lines()), told.append)

    sessions = [line.partition("; ")[2] for line in told if line.startswith("connected")]
    assert sessions == ["begins a session", "goes on with a session"]


def test_a_killed_bridge_and_a_restarted_broker_lose_nothing_and_repeat_lines_only_as_they_were(
    broker: Broker, bridged: Bridged
) -> None:
    count, kills = 6000, 3
    # Few in flight, so that kills find messages that are written and not acknowledged.
    bridge = bridged(broker, "in_flight = 50\nroll_bytes = 40000")
    process = bridge.start()
    wait_for(is_running(bridge), "the bridge")
    with publisher(broker) as publish:
        for kill in range(kills):
            before = len(bridge.lines())
            sending = threading.Thread(
                target=publish, args=(numbered(count // kills, kill * count // kills),)
            )
            sending.start()
            wait_for(lambda before=before: len(bridge.lines()) > before + 100, "the bridge at work")  # type: ignore[misc]
            process.kill()
            process.communicate()
            if kill == 1:
                broker.stop()
                broker.start()
            process = bridge.start()
            sending.join()
        if process.poll() is None:
            broker.stop()
            broker.start()
        publish(numbered(100, count))

    wait_for(lambda: len(set(bridge.payloads())) == count + 100, "all messages", 600)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=240)

    lines = Counter(bridge.lines())
    payloads = Counter(json.loads(line)["payload"] for line in lines)
    assert set(payloads) == {str(n) for n in range(count + 100)}
    # A message that was landed twice is the same line twice, so that no identity takes it for two rows.
    assert [payload for payload, times in payloads.items() if times > 1] == []


@pytest.mark.parametrize("point", LANDING_POINTS)
def test_a_bridge_that_dies_anywhere_loses_nothing_and_repeats_only_what_is_alike(
    broker: Broker, bridged: Bridged, point: str
) -> None:
    bridge = bridged(broker, "roll_bytes = 500")
    bridge.environment["TIDEMARK_CRASH_AT"] = f"{point}:2"
    dying = bridge.start()
    wait_for(is_running(bridge), "the bridge")
    sent = 0
    with publisher(broker) as publish:
        # One by one: of a process that dies with something unread the broker may lose the last acknowledgements.
        while dying.poll() is None and sent < 100:
            publish(numbered(1, sent))
            sent += 1
            wait_for(lambda n=sent: dying.poll() is not None or len(bridge.lines()) >= n, "the message")  # type: ignore[misc]
            time.sleep(0.2)
        publish(numbered(200 - sent, sent))
    dying.communicate(timeout=240)
    assert dying.returncode == -signal.SIGKILL
    safe = len(bridge.lines())
    del bridge.environment["TIDEMARK_CRASH_AT"]

    process = bridge.start("--json")
    wait_for(lambda: len(set(bridge.payloads())) == 200, "all messages")
    process.send_signal(signal.SIGTERM)

    repeated = json.loads(process.communicate(timeout=240)[0])["repeated"]
    assert len(bridge.lines()) == 200 + repeated and len(set(bridge.lines())) == 200
    # Written and not acknowledged: the broker sends it again, and it is known again.
    assert (repeated > 0) == (point in ("landing.written", "landing.safe")) and safe > 0


def test_a_slow_disk_holds_no_more_in_memory_than_may_be_in_flight(
    broker: Broker, bridged: Bridged, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = bridged(broker, "in_flight = 10").config
    settings = load_settings(config)
    fsync, batches = os.fsync, []

    def slow(handle: int) -> None:
        time.sleep(0.02)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", slow)
    from lakehouse.collect.spool import Spool

    commit = Spool.commit

    def counted(spool: Spool, now_us: int) -> None:
        batches.append(spool.pending)
        commit(spool, now_us)

    monkeypatch.setattr(Spool, "commit", counted)
    is_done = threading.Event()
    arguments = (settings.streams["air"], Home(config.parent / "var"), None, is_done.is_set, print)
    thread = threading.Thread(target=land, args=arguments)
    thread.start()
    bridge = Bridge(config, "air")
    wait_for(is_running(bridge), "the bridge")
    with publisher(broker) as publish:
        publish(numbered(400))
    wait_for(lambda: len(bridge.lines()) == 400, "400 messages")
    is_done.set()
    thread.join(240)

    assert 0 < max(batches) <= 10 and sum(batches) == 400


def test_a_retained_message_comes_once_a_session(broker: Broker, bridged: Bridged) -> None:
    bridge = bridged(broker)
    with publisher(broker) as publish:
        publish([("air/kept", b"21.5", True)])
    for _ in range(2):
        process = bridge.start()
        wait_for(lambda: len(bridge.lines()) == 1 and is_running(bridge)(), "the retained message")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=240)

    [line] = bridge.lines()
    assert (json.loads(line)["payload"], json.loads(line)["retain"]) == ("21.5", True)


def test_an_older_protocol_works_alike(broker: Broker, bridged: Bridged) -> None:
    bridge = bridged(broker, 'protocol = "3.1.1"')
    process = bridge.start()
    wait_for(is_running(bridge), "the bridge")
    with publisher(broker) as publish:
        publish(numbered(100))
    wait_for(lambda: len(bridge.lines()) >= 100, "100 messages")
    process.kill()
    process.communicate()
    with publisher(broker) as publish:
        publish(numbered(100, 100))
    process = bridge.start()
    wait_for(lambda: len(set(bridge.payloads())) == 200, "all messages")

    assert len(set(bridge.lines())) == 200


def test_a_broker_that_is_not_there_is_waited_for(tmp_path: Path, bridged: Bridged) -> None:
    folder = tmp_path / "later"
    folder.mkdir()
    broker = Broker(folder)
    broker.start()
    broker.stop()
    bridge = bridged(broker)
    process = bridge.start()
    wait_for(lambda: "cannot reach" in str(bridge.beat().get("note")), "a note")
    assert bridge.beat()["state"] == "connecting"

    broker.start()

    wait_for(is_running(bridge), "the bridge")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=240)
    broker.stop()


@pytest.fixture
def guarded(tmp_path: Path) -> Broker:
    """A broker that asks for a password, and speaks TLS with a certificate of its own."""
    if shutil.which("openssl") is None or shutil.which("mosquitto_passwd") is None:
        pytest.skip("needs openssl and mosquitto_passwd")
    folder = tmp_path / "guarded"
    folder.mkdir()
    request = (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    made = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "ca.pem")]
    subprocess.run(["openssl", *request.split(), *made], check=True, capture_output=True)
    subprocess.run(["mosquitto_passwd", "-b", "-c", folder / "users", "ann", "s3cret"], check=True)
    files = f"cafile {folder}/ca.pem\ncertfile {folder}/ca.pem\nkeyfile {folder}/key.pem"
    return Broker(folder, f"allow_anonymous false\npassword_file {folder}/users\n{files}")


USER = 'username = "ann"\npassword_env = "AIR_PASSWORD"\nca = "guarded/ca.pem"'


def test_a_password_comes_from_the_environment_over_tls_and_is_shown_nowhere(
    guarded: Broker, bridged: Bridged
) -> None:
    guarded.start()
    bridge = bridged(guarded, USER, "mqtts", AIR_PASSWORD="s3cret")
    process = bridge.start("--for", "2s", "--json")

    out, err = process.communicate(timeout=240)

    assert process.returncode == 0 and "connected to mqtts://localhost" in err
    assert "s3cret" not in out + err + json.dumps(bridge.beat())
    guarded.stop()


def test_who_is_refused_for_good_is_told_and_does_not_try_again(guarded: Broker, bridged: Bridged) -> None:
    guarded.start()
    bridge = bridged(guarded, USER, "mqtts", AIR_PASSWORD="wr0ng")

    process = bridge.start()

    _, err = process.communicate(timeout=240)
    assert process.returncode == 1 and "the broker refused: Not authorized" in err
    assert "wr0ng" not in err and bridge.beat()["state"] == "failed"
    guarded.stop()


def test_a_variable_that_is_not_set_is_told_before_anything_is_tried(
    broker: Broker, bridged: Bridged
) -> None:
    process = bridged(broker, 'username = "ann"\npassword_env = "AIR_PASSWORD"').start()

    _, err = process.communicate(timeout=240)

    assert process.returncode == 2 and "password_env: found no variable AIR_PASSWORD" in err
