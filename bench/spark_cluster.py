"""A standalone Spark master with workers on loopback, from the pip distribution of Spark. For tests and measurements."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psutil
import pyspark

from bench.peer.systems import free_base, wait_for
from weir_common.java import java_home

LOOPBACK = "127.0.0.1"
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
EXECUTOR_MEMORY_MB = 700


class SparkCluster:
    """`url`: the master URL. `environment`: for drivers; their executors are small."""

    def __init__(self, folder: Path, *, workers: int = 2, cores: int = 1) -> None:
        self._folder, self._processes = folder, list[subprocess.Popen[bytes]]()
        folder.mkdir(parents=True, exist_ok=True)
        port = free_base(1)
        self.url = f"spark://{LOOPBACK}:{port}"
        conf = folder / "conf"
        conf.mkdir()
        (conf / "spark-defaults.conf").write_text(f"spark.executor.memory {EXECUTOR_MEMORY_MB}m\n")
        self.environment = {"SPARK_LOCAL_IP": LOOPBACK, "SPARK_CONF_DIR": str(conf)}
        try:
            self._start("master.Master", "--host", LOOPBACK, "--port", str(port), "--webui-port", "0")
            memory = f"{cores * EXECUTOR_MEMORY_MB + 400}m"
            for n in range(workers):
                place = ("--host", LOOPBACK, "--webui-port", "0", "--work-dir", str(folder / f"worker-{n}"))
                self._start("worker.Worker", *place, "--cores", str(cores), "--memory", memory, self.url)
            wait_for(lambda: self.log().count("Registering worker") >= workers, "the workers to register")
        except BaseException:
            self.stop()
            raise

    def _start(self, name: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            **self.environment,
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            # Ended executors are the purpose of a test, so an application is never removed for them.
            "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
        }
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        with self._log() as log:
            self._processes.append(
                subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
            )

    def _log(self) -> IO[bytes]:
        return open(self._folder / "daemons.log", "ab")

    def log(self) -> str:
        """The logs of master and workers."""
        return (self._folder / "daemons.log").read_text(errors="replace")

    def executors(self) -> list[psutil.Process]:
        """The live processes that run tasks."""
        return list(self._running(EXECUTOR))

    def _running(self, name: str) -> Iterator[psutil.Process]:
        for process in self._processes:
            try:
                for child in psutil.Process(process.pid).children(recursive=True):
                    if name in child.cmdline() and child.status() != psutil.STATUS_ZOMBIE:
                        yield child
            except psutil.NoSuchProcess:
                continue

    def stop(self) -> None:
        """End master, workers and executors."""
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._processes.clear()


@contextmanager
def spark_cluster(folder: Path, *, workers: int = 2, cores: int = 1) -> Iterator[SparkCluster]:
    running = SparkCluster(folder, workers=workers, cores=cores)
    try:
        yield running
    finally:
        running.stop()
