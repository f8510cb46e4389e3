"""Order and distribution of the test files of a parallel run (`pytest -n N --dist loadfile`, pytest-xdist).

Long files begin first: one that begins last leaves the other cores idle. Files that start processes run on two workers, because more clusters at a time make
elections and sessions late. They wait most of the time, so further workers run the other files meanwhile, with a lower priority in the operating system.
Invariant: every file runs, on whichever worker is left. Does not contain: the order of the tests in a file (pytest-randomly).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

PROCESS_WORKERS = 2
"""Workers for files that start clusters, browsers or Spark."""
NICENESS = 10
"""Niceness of the further workers."""
PROCESSES = ("tests/pipeline/", "tests/upgrade/", "tests/cluster/", "tests/faults/", "tests/browser/")
"""Directories of files that start processes, those with the longest files first."""
LONG = ("tests/project/", "tests/contract/", "tests/simulation/")
"""Directories of other long files."""


def folder_rank(path: str) -> int:
    """The place of a test file in the order of a run."""
    folders = (*PROCESSES, *LONG)
    return next((i for i, folder in enumerate(folders) if path.startswith(folder)), len(folders))


def starts_processes(path: str) -> bool:
    return path.startswith(PROCESSES)


def is_further(worker_id: str) -> bool:
    """Whether this worker ("gw0", "gw1", ...) is one that leaves files with processes to the others."""
    return int(worker_id.removeprefix("gw")) >= PROCESS_WORKERS


class ProcessFilesFirst(LoadFileScheduling):
    """Keeps the order of the collection. A further worker takes the first file that starts no processes, and ends when none is left."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        config.option.loadscopereorder = False  # by number of tests: the files with processes have few
        super().__init__(config, log)

    def _computing(self) -> str | None:
        """The first file of the queue that starts no processes."""
        return next((path for path in self.workqueue if not starts_processes(path)), None)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if is_further(node.gateway.id) and (path := self._computing()) is not None:
            self.workqueue.move_to_end(path, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        others = any(not is_further(n.gateway.id) and not n.shutting_down for n in self.nodes)
        if is_further(node.gateway.id) and self._computing() is None and others:
            node.shutdown()
            return
        super()._reschedule(node)
