"""An archive as an operator asks for it: by REST, submitted by the worker, its driver killed in mid-run, its table complete in the console.
In a secured house: the driver comes in by TLS, with the worker's password, which stands in no command line."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.house import House
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    # A driver with Weir's nice of 10 has a twentieth of a machine that other tests keep busy, and needs tens of seconds of CPU.
    house = House(tmp_path_factory.mktemp("house"), "--secure", WEIR_SPARK_NICE="0")
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

    def until(condition: Callable[[], Any], what: str) -> Any:
        try:
            return wait_for(condition, what, 180)
        except AssertionError as e:
            log = house.folder / "logs" / f"archive-{job}.log"
            tail = log.read_text(errors="replace")[-2_000:] if log.exists() else "no log"
            raise AssertionError(f"{e}; {written()} rows; its row {row()}; its driver's last words: {tail}") from None

    first = until(lambda: row()["pid"], "the driver")
    password = json.loads((house.folder / "house.json").read_text())["kafka_password"]
    assert password.encode() not in Path(f"/proc/{first}/cmdline").read_bytes()
    until(lambda: written() == 3_000, "the first records in the lake")
    os.kill(first, signal.SIGKILL)
    house.fill("archived", 2_000)
    until(lambda: row()["pid"] not in (None, first), "another driver")
    until(lambda: written() == 5_000, "the rest in the lake")
    table = house.get(f"archives/{job}/written")
    assert [w["partition"] for w in table] == [0, 1]
    assert not any(w["gap"] for w in table)
    assert all(w["rows"] == w["next_offset"] - w["first_offset"] for w in table)
    assert row()["restarts"] >= 1
    house.post(f"archives/{job}/stop", {"why": "test"})
    until(lambda: row()["state"] == "stopped", "the stop")
