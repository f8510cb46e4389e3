"""The supervisor and a restart that was asked for: this very process, once, cleanly, and by force only when it does not end."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.house import processes
from controlplane.house.layout import Layout
from tests.cluster.local import wait_for

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
)


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
    found = processes.running(folder, "broker-1")
    return found["pid"] if found is not None else None


def other(supervisor: processes.Supervisor, folder: Path, before: int | None) -> int | None:
    supervisor.step()
    now = pid(folder)
    return now if now != before else None


def test_a_process_that_was_asked_for_is_restarted_once_and_its_successor_is_left_alone(
    supervisor: processes.Supervisor, layout: Layout
) -> None:
    asked = processes.running(layout.folder, "broker-1")
    assert asked is not None
    processes.ask_restart(layout.folder, "broker-1", asked)
    second = wait_for(lambda: other(supervisor, layout.folder, asked["pid"]), "another process", 60)
    assert not layout.restart("broker-1").exists()
    processes.ask_restart(layout.folder, "broker-1", asked)  # once more, for one that is gone
    for _ in range(5):
        supervisor.step()
        time.sleep(0.02)
    assert pid(layout.folder) == second and not layout.restart("broker-1").exists()
    assert supervisor.processes["broker-1"].starts == 1, "what was asked for is no death to be slow after"


def test_who_does_not_end_is_made_to(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(processes.STOP_SECONDS, "broker", 0.3)
    running = processes.Supervisor(layout, [processes.Process("broker-1", [sys.executable, "-c", STUBBORN])])
    try:
        running.step()
        wait_for(lambda: "deaf" in layout.log("broker-1").read_text(), "it to be deaf", 60)
        asked = processes.running(layout.folder, "broker-1")
        assert asked is not None
        processes.ask_restart(layout.folder, "broker-1", asked)
        wait_for(lambda: other(running, layout.folder, asked["pid"]), "another process", 60)
    finally:
        running.stop()


def test_a_folder_without_a_living_supervisor_runs_nothing(layout: Layout) -> None:
    assert processes.running(layout.folder, "broker-1") is None
    state = {
        "supervisor": {"pid": 1, "started": -5},
        "processes": [{"name": "broker-1", "pid": 1, "started": -5, "state": "running"}],
    }
    layout.state.write_text(json.dumps(state))
    assert processes.running(layout.folder, "broker-1") is None
