"""Settings of Hypothesis for every test, and the order of the test files.

A loaded machine may pause an example of Hypothesis for seconds: time is the concern of pytest-timeout.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests import scheduling

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

settings.register_profile("weir", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("weir")


def pytest_configure() -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None and scheduling.is_further(worker):
        os.nice(scheduling.NICENESS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """pytest-randomly has shuffled the files before; the sort is stable."""
    items.sort(key=lambda item: scheduling.folder_rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    return scheduling.ProcessFilesFirst(config, log) if config.getoption("dist") == "loadfile" else None
