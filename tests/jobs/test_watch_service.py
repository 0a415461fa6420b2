from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jobs import watch_service
from jobs.watch_service import ServiceStalled
from lakehouse.settings import Settings
from lakehouse.storage.control.lease import lease
from tests.support.heartbeats import served
from tests.support.readings import declared


@pytest.fixture
def settings(lakehouse_of: Callable[[str], Settings]) -> Settings:
    return lakehouse_of(declared())


def test_a_home_that_was_never_served_or_whose_service_was_stopped_is_no_alarm(settings: Settings) -> None:
    assert watch_service.run(settings)["state"] == "none"
    served(settings.layout, "stopped", 1, 1e6)
    assert watch_service.run(settings)["state"] == "none"


def test_a_service_that_gets_on_is_told_with_the_steps_that_fail(settings: Settings) -> None:
    step = {"job": "ingest", "name": "readings", "failures": 2}
    with lease(settings.layout, settings.layout.service):
        served(settings.layout, tasks=[step, step | {"failures": 0}])
        found = watch_service.run(settings)

    assert (found["state"], found["failing"]) == ("running", ["ingest readings"])


def test_an_old_heartbeat_of_a_process_that_has_gone_is_an_alarm(settings: Settings) -> None:
    served(settings.layout, "running", 4711, 90)

    with pytest.raises(
        ServiceStalled, match=r"process 4711\) was 9\d s ago, .* its process has gone without a stop"
    ):
        watch_service.run(settings)


def test_an_old_heartbeat_of_a_process_that_is_alive_is_an_alarm_too(settings: Settings) -> None:
    served(settings.layout, "stopping", 4711, 90)

    with (
        lease(settings.layout, settings.layout.service),
        pytest.raises(ServiceStalled, match="is alive and stands still"),
    ):
        watch_service.run(settings)


def test_a_health_check_ends_with_what_it_found(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ["--home", str(settings.home)]
    assert watch_service.main(home) == 1
    with lease(settings.layout, settings.layout.service):
        served(settings.layout)
        assert watch_service.main(home) == 0
        served(settings.layout, "running", 1, 90)
        assert watch_service.main(home) == 1
    assert "stands still" in capsys.readouterr().err
