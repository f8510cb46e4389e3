"""An archive as an operator asks for it: by REST, submitted by the worker, its driver killed in mid-run, its table complete in the console.
In a secured house: the driver comes in by TLS, with the worker's password, which stands in no command line."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.house import House
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("house"), "--secure")
    yield house
    house.down()


def test_an_archive_asked_for_by_rest_survives_its_drivers_death_and_is_told_whole(house: House) -> None:
    house.topic("archived", partitions=2, replication_factor=3)
    house.fill("archived", 3_000)
    job = house.post("archives", {"topics": ["archived"], "why": "test"})["id"]

    def row() -> dict[str, Any]:
        return dict(house.get(f"archives/{job}"))

    def written() -> int:
        return sum(w["rows"] for w in house.get(f"archives/{job}/written"))

    first = wait_for(lambda: row()["pid"], "the driver", 90)
    password = json.loads((house.folder / "house.json").read_text())["kafka_password"]
    assert password.encode() not in Path(f"/proc/{first}/cmdline").read_bytes()
    wait_for(lambda: written() == 3_000, "the first records in the lake", 150)
    os.kill(first, signal.SIGKILL)
    house.fill("archived", 2_000)
    wait_for(lambda: row()["pid"] not in (None, first), "another driver", 90)
    wait_for(lambda: written() == 5_000, "the rest in the lake", 150)
    table = house.get(f"archives/{job}/written")
    assert [w["partition"] for w in table] == [0, 1]
    assert not any(w["gap"] for w in table)
    assert all(w["rows"] == w["next_offset"] - w["first_offset"] for w in table)
    assert row()["restarts"] >= 1
    house.post(f"archives/{job}/stop", {"why": "test"})
    wait_for(lambda: row()["state"] == "stopped", "the stop", 60)
