"""The supervisor restarts exactly the requested process, once, by SIGTERM. It sends SIGKILL only if the process does not end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from controlplane.clients import supervisor as supervisor_client
from controlplane.devcluster import processes
from controlplane.devcluster.layout import Layout
from controlplane.domain.restart import ProcessEnd
from tests.cluster.local import wait_for

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ignores SIGTERM', flush=True); time.sleep(600)"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "logs").mkdir()
    return Layout(tmp_path, 20_000, 1, 1)


@pytest.fixture
def supervisor(layout: Layout) -> Iterator[processes.Supervisor]:
    running = processes.Supervisor(
        layout, [processes.Process("broker-1", [sys.executable, "-c", "import time; time.sleep(600)"])]
    )
    running.step()
    yield running
    running.stop()


def pid(folder: Path) -> int | None:
    found = supervisor_client.running_process(folder, "broker-1")
    return found.pid if found is not None else None


def other_pid(supervisor: processes.Supervisor, folder: Path, before: int | None) -> int | None:
    supervisor.step()
    now = pid(folder)
    return now if now != before else None


def test_a_requested_restart_happens_once_and_not_to_the_successor(
    supervisor: processes.Supervisor, layout: Layout
) -> None:
    requested = supervisor_client.running_process(layout.folder, "broker-1")
    assert requested is not None
    supervisor_client.request_restart(layout.folder, "broker-1", requested)
    second = wait_for(lambda: other_pid(supervisor, layout.folder, requested.pid), "another process", 60)
    assert not layout.restart("broker-1").exists()
    supervisor_client.request_restart(layout.folder, "broker-1", requested)  # its process has ended
    for _ in range(5):
        supervisor.step()
        time.sleep(0.02)
    assert pid(layout.folder) == second and not layout.restart("broker-1").exists()
    assert supervisor.processes["broker-1"].starts == 1, "a requested restart does not count as a crash"


def test_a_process_that_ignores_sigterm_is_killed(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(processes.STOP_SECONDS, "broker", 0.3)
    running = processes.Supervisor(layout, [processes.Process("broker-1", [sys.executable, "-c", STUBBORN])])
    try:
        running.step()
        wait_for(lambda: "ignores SIGTERM" in layout.log("broker-1").read_text(), "the process to ignore SIGTERM", 60)
        requested = supervisor_client.running_process(layout.folder, "broker-1")
        assert requested is not None
        supervisor_client.request_restart(layout.folder, "broker-1", requested)
        wait_for(lambda: other_pid(running, layout.folder, requested.pid), "another process", 60)
    finally:
        running.stop()


def test_the_signal_that_ended_a_process_and_its_time_are_recorded_until_the_next_start(
    supervisor: processes.Supervisor, layout: Layout
) -> None:
    layout.stopped_marker("broker-1").parent.mkdir(exist_ok=True)
    layout.stopped_marker("broker-1").touch()
    process = supervisor.processes["broker-1"].popen
    assert process is not None and supervisor_client.process_ends(layout.folder) == {}
    began = time.time()
    process.kill()

    def observed_ends() -> dict[str, ProcessEnd]:
        supervisor.step()
        return supervisor_client.process_ends(layout.folder)

    end = wait_for(observed_ends, "the end of the process", 60)["broker-1"]
    assert end.code == -signal.SIGKILL and began <= end.at <= time.time()
    layout.stopped_marker("broker-1").unlink()
    wait_for(lambda: not observed_ends(), "the next start", 60)


def test_spark_drivers_of_this_cluster_are_ended_and_no_other(layout: Layout) -> None:
    def driver(*arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", *arguments])

    folder = layout.folder
    mine = [
        driver("pipeline.jobs.run", str(folder / "spark" / "run-3")),
        driver("pipeline.jobs.archive", "--lake", str(folder / "lake")),
    ]
    others = [driver("pipeline.jobs.run", f"{folder}-2/spark/run-3"), driver("tail", str(folder / "spark" / "run-3"))]
    try:
        wait_for(lambda: all(psutil.Process(p.pid).cmdline() for p in mine + others), "the processes")
        assert sorted(processes.end_drivers(folder)) == sorted(p.pid for p in mine)
        assert not any(psutil.pid_exists(p.pid) for p in mine)
        assert [p.poll() for p in others] == [None, None]
    finally:
        for p in mine + others:
            p.kill()
            p.wait()


def test_without_a_live_supervisor_no_process_counts_as_running(layout: Layout) -> None:
    assert supervisor_client.running_process(layout.folder, "broker-1") is None
    state = {
        "supervisor": {"pid": 1, "started": -5},
        "processes": [{"name": "broker-1", "pid": 1, "started": -5, "state": "running"}],
    }
    layout.state.write_text(json.dumps(state))
    assert supervisor_client.running_process(layout.folder, "broker-1") is None
