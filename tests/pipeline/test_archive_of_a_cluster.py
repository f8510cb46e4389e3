"""An archive job requested over REST and submitted by the worker. Its driver is killed during the run; the console shows the complete table. The cluster
is secured: the driver connects by TLS with the worker's password, which is in no command line.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    # With Weir's nice value of 10 a driver gets a twentieth of a machine that other tests keep busy, and it needs tens of seconds of CPU.
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"), "--secure", WEIR_SPARK_NICE="0")
    yield devcluster
    devcluster.down()


def test_an_archive_job_requested_over_rest_survives_its_drivers_death_and_is_complete(devcluster: DevCluster) -> None:
    devcluster.topic("archived", partitions=2, replication_factor=3)
    devcluster.fill("archived", 3_000)
    job = devcluster.post("archives", {"topics": ["archived"], "comment": "test"})["id"]

    def row() -> dict[str, Any]:
        return dict(devcluster.get(f"archives/{job}"))

    def written_rows() -> int:
        return sum(w["rows"] for w in devcluster.get(f"archives/{job}/offsets")["rows"])

    def wait_until(condition: Callable[[], Any], what: str) -> Any:
        try:
            return wait_for(condition, what, 180)
        except AssertionError as e:
            log = devcluster.folder / "logs" / f"archive-{job}.log"
            tail = log.read_text(errors="replace")[-2_000:] if log.exists() else "no log"
            raise AssertionError(
                f"{e}; {written_rows()} rows; its row {row()}; its driver's last words: {tail}"
            ) from None

    first = wait_until(lambda: row()["pid"], "the driver")
    password = json.loads((devcluster.folder / "local-cluster.json").read_text())["kafka_password"]
    assert password.encode() not in Path(f"/proc/{first}/cmdline").read_bytes()
    wait_until(lambda: written_rows() == 3_000, "the first records in the lake")
    os.kill(first, signal.SIGKILL)
    devcluster.fill("archived", 2_000)
    wait_until(lambda: row()["pid"] not in (None, first), "another driver")
    wait_until(lambda: written_rows() == 5_000, "the rest in the lake")
    table = devcluster.get(f"archives/{job}/offsets")["rows"]
    assert [w["partition"] for w in table] == [0, 1]
    assert not any(w["gap"] for w in table)
    assert all(w["rows"] == w["next_offset"] - w["first_offset"] for w in table)
    assert row()["restarts"] >= 1
    devcluster.post(f"archives/{job}/stop", {"comment": "test"})
    wait_until(lambda: row()["state"] == "stopped", "the stop")
