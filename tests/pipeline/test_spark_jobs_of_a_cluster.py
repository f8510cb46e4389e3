"""A Spark job of a local cluster from the request by REST to its end: progress, kill -9 of the worker and of the driver, stop, another run. The table is
compared with the produced records.

Does not test a Spark cluster (`make cluster-kills`), and each step of a commit (tests/pipeline/test_lake_kills.py).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.cluster.devcluster import DevCluster
from tests.pipeline.cluster_kills import TOPIC, differences, numbers, produce
from tests.pipeline.submitted_job import SubmittedJob, drivers_below

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    folder = tmp_path_factory.mktemp("devcluster")
    devcluster = DevCluster(folder, "--brokers", "1", WEIR_SPARK_NICE="0", WEIR_SPARK_MASTER="local[2]")
    yield devcluster
    devcluster.down()


def test_a_job_survives_the_kill_of_its_worker_and_runs_once(devcluster: DevCluster) -> None:
    devcluster.topic(TOPIC, partitions=2, replication_factor=1)
    produce(devcluster, 0, 5_000)
    parameters = {"topics": [TOPIC], "records_per_batch": 1_000, "trigger_seconds": 0}
    job = SubmittedJob(devcluster, "orders", "archive", parameters)
    first_run = job.wait_until(lambda: job.job()["run_id"], "a run")

    # The worker is killed while the driver works: the next worker follows the same driver.
    job.wait_until(lambda: (job.run_row()["rows"] or 0) > 0, "progress in REST")
    (driver,) = job.drivers()
    devcluster.kill("worker")
    produce(devcluster, 5_000, 5_000)
    job.wait_until(lambda: job.committed_rows(TOPIC) == 10_000, "the driver to continue without a worker")
    job.wait_until(lambda: job.run_row()["rows"] == 10_000, "the progress from the next worker")
    row = job.run_row()
    assert (row["id"], row["state"], row["pid"], row["restarts"]) == (first_run, "running", driver, 0)
    assert job.drivers() == [driver]

    # Both are killed: the next worker starts the driver again, once.
    devcluster.kill("worker")
    os.killpg(driver, signal.SIGKILL)
    produce(devcluster, 10_000, 5_000)
    job.wait_until(lambda: job.committed_rows(TOPIC) == 15_000, "another driver")
    row = job.run_row()
    assert (row["id"], row["restarts"], job.drivers()) == (first_run, 1, [row["pid"]])

    # The worker is killed after the request to stop: the next one stops the driver.
    job.post("stop")
    devcluster.kill("worker")
    job.wait_until(lambda: job.job()["state"] == "stopped", "the stop")
    assert job.drivers() == []

    # Another run of the job continues at the positions of the table.
    produce(devcluster, 15_000, 5_000)
    job.post("run")
    job.wait_until(lambda: job.committed_rows(TOPIC) == 20_000, "the second run")
    assert job.job()["run_id"] != first_run
    job.post("stop")
    job.wait_until(lambda: job.job()["state"] == "stopped", "the second stop")
    assert differences(numbers(job.values(TOPIC)), [], 20_000) == []


def test_no_driver_outlives_the_local_cluster(devcluster: DevCluster) -> None:
    devcluster.topic("clicks", partitions=1, replication_factor=1)
    job = SubmittedJob(devcluster, "clicks", "archive", {"topics": ["clicks"]})
    folder = devcluster.folder / "spark" / f"run-{job.wait_until(lambda: job.job()['run_id'], 'a run')}"
    job.wait_until(job.drivers, "a driver")
    devcluster.down()
    assert drivers_below(folder) == []
    devcluster.up()
    job.wait_until(job.drivers, "a driver after the start")
    job.post("stop")
    job.wait_until(lambda: job.job()["state"] == "stopped", "the stop")
