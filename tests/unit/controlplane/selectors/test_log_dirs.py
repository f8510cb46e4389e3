"""The log directories of a broker as rows."""

from __future__ import annotations

import pytest

from controlplane.selectors import log_dirs as selectors
from tests.unit.controlplane.log_dir_responses import MOVING, Directories, reporting
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def directories(monkeypatch: pytest.MonkeyPatch) -> Directories:
    World()
    return reporting(monkeypatch)


def broker_log_dirs(**options: object) -> selectors.BrokerLogDirs:
    response = selectors.broker_log_dirs(1, **options)  # type: ignore[arg-type]
    assert response is not None
    return response


def test_directories_have_sums_and_a_failed_one_has_none(directories: Directories) -> None:
    assert [(d.path, d.state, d.replicas, d.size_bytes, d.free_bytes) for d in broker_log_dirs().directories] == [
        ("/a", "healthy", 2, 4_000_000, 4_000_000),
        ("/b", "healthy", 1, 2_000_000, 5_000_000),
        ("/failed", "failed", None, None, None),
    ]


def test_replicas_are_listed_from_the_largest_with_filters_and_pages(directories: Directories) -> None:
    everything = broker_log_dirs()
    assert [f"{r.topic}-{r.index}" for r in everything.rows] == ["orders-0", "logs-0", "orders-1"]
    assert (everything.total, everything.first, everything.last, everything.sort) == (3, 1, 3, "-size_bytes")
    for options, names in (
        ({"query": "ORD"}, ["orders-0", "orders-1"]),
        ({"directory": "/b"}, ["logs-0"]),
        ({"sort": "topic"}, ["logs-0", "orders-0", "orders-1"]),
        ({"sort": "-directory"}, ["logs-0", "orders-0", "orders-1"]),
        ({"sort": "nonsense"}, ["orders-0", "logs-0", "orders-1"]),
        ({"per_page": 2, "page": 2}, ["orders-1"]),
    ):
        assert [f"{r.topic}-{r.index}" for r in broker_log_dirs(**options).rows] == names, options


def test_a_move_has_its_progress_and_its_copy_is_no_replica(directories: Directories) -> None:
    directories.dirs = MOVING
    response = broker_log_dirs()
    (move,) = response.moves
    assert (move.source, move.target, move.percent, move.lag_records) == ("/a", "/b", 25.0, 7)
    assert response.total == 3 and [r.moving for r in response.rows] == [False, False, True]
    assert response.directories[1].replicas == 1


def test_a_broker_without_a_response_has_a_reason(directories: Directories) -> None:
    directories.silent = True
    assert (broker_log_dirs().problem, broker_log_dirs().directories) == ("frozen", [])
    World().down(1)
    assert broker_log_dirs().problem == "The broker is down."
    assert selectors.broker_log_dirs(99) is None
