from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.brokers.mqtt import DECLARED, Bridge, Broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that anyone may use."""
    folder = tmp_path / "broker"
    folder.mkdir()
    made = Broker(folder)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def bridged(tmp_path: Path) -> Iterator[Callable[..., Bridge]]:
    """Return a bridge of the stream ``air`` to a broker; what it starts ends with the test."""
    made: list[Bridge] = []

    def make(broker: Broker, options: str = "", scheme: str = "mqtt", **environment: str) -> Bridge:
        config = tmp_path / "tidemark.toml"
        config.write_text(DECLARED.format(port=broker.port, options=options, scheme=scheme))
        made.append(Bridge(config, "air", environment))
        return made[-1]

    yield make
    for bridge in made:
        bridge.end()
