"""The distribution of test files over workers: files with processes on two workers, and every file once."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.scheduling import ProcessFilesFirst, folder_rank, is_further, starts_processes

CLUSTERS = [f"tests/cluster/test_{i}.py::test_{n}" for i in range(5) for n in range(2)]
LONG = [f"tests/simulation/test_{i}.py::test_{n}" for i in range(2) for n in range(3)]
UNIT = [f"tests/unit/storage/test_{i}.py::test_{n}" for i in range(6) for n in range(4)]


@dataclass(eq=False)
class Worker:
    """A worker of pytest-xdist that runs nothing. `pending`: the tests it was sent, oldest first."""

    gateway: Any
    pending: list[int] = field(default_factory=list)
    shutting_down: bool = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.pending += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def run(workers: int, collection: list[str], dies: str = "") -> dict[str, list[str]]:
    """{worker: its tests in order}. All workers are equally fast. `dies`: this worker crashes before its first test, and is not replaced."""
    config: Any = SimpleNamespace(
        option=SimpleNamespace(loadscopereorder=True), getvalue=lambda name: ["popen"] * workers
    )
    scheduler: Any = ProcessFilesFirst(config)
    nodes = [Worker(SimpleNamespace(id=f"gw{i}")) for i in range(workers)]
    for node in nodes:
        scheduler.add_node(node)
    for node in nodes:
        scheduler.add_node_collection(node, collection)
    scheduler.schedule()
    done: dict[str, list[str]] = {n.gateway.id: [] for n in nodes}
    for node in [n for n in nodes if n.gateway.id == dies]:
        nodes.remove(node)
        assert scheduler.remove_node(node) is not None
    while not scheduler.tests_finished or any(n.pending for n in nodes):
        assert any(n.pending for n in nodes), "no worker has a test, but tests are left"
        for node in nodes:
            if node.pending:
                index = node.pending.pop(0)
                done[node.gateway.id].append(collection[index])
                scheduler.mark_test_complete(node, index)
    return done


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_every_test_runs_once_and_further_workers_start_no_processes(workers: int) -> None:
    collection = sorted(UNIT + LONG + CLUSTERS, key=folder_rank)
    done = run(workers, collection)
    assert sorted(t for tests in done.values() for t in tests) == sorted(collection)
    assert not any(starts_processes(t) for worker, tests in done.items() if is_further(worker) for t in tests)
    assert done["gw0"][0] == CLUSTERS[0] and done["gw1"][0] == CLUSTERS[2]
    assert all(tests[0] == LONG[0] for worker, tests in done.items() if worker == "gw2")


def test_further_workers_take_the_files_of_crashed_ones() -> None:
    collection = sorted(UNIT + CLUSTERS, key=folder_rank)
    done = run(3, collection, dies="gw1")
    assert sorted(t for tests in done.values() for t in tests) == sorted(collection)


def test_the_longest_files_come_first() -> None:
    paths = ["tests/unit/a.py", "tests/simulation/a.py", "tests/browser/a.py", "tests/pipeline/a.py"]
    assert sorted(paths, key=folder_rank) == paths[::-1]
