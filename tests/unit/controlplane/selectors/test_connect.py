"""The list of connectors and one connector, as the workers report them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest

from controlplane.clients import connect as client_module
from controlplane.domain.errors import Rejected
from controlplane.selectors import connect as selectors
from tests.unit.connect_server import WorkerState, running_worker
from tests.unit.controlplane.world import World

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def state(settings: Any, world: World) -> Iterator[WorkerState]:
    with running_worker() as found:
        settings.WEIR = replace(settings.WEIR, connect_urls=(("etl", (found.url,)),))
        yield found


def test_connectors_with_problems_are_first(state: WorkerState) -> None:
    for name in ("a", "b", "c", "d"):
        state.add(name, tasks=2)
    state.add("files", "shop.FileSource")
    state.states["b"] = "PAUSED"
    state.fail_task("c", 1)
    state.states["d"] = "UNASSIGNED"
    page = selectors.connector_list()
    assert [r.name for r in page.rows] == ["c", "d", "b", "a", "files"]
    c = page.rows[0]
    assert (c.state, c.tasks, c.running_tasks, c.failed_tasks, c.group) == ("RUNNING", 2, 1, 1, "connect-c")
    assert next(r for r in page.rows if r.name == "files").group is None
    [cluster] = page.clusters
    assert (cluster.version, cluster.connectors, cluster.failed_connectors, cluster.tasks, cluster.failed_tasks) == (
        "4.3.1",
        5,
        0,
        9,
        1,
    )
    assert [r.name for r in selectors.connector_list(state="failed").rows] == ["c"]
    assert [r.name for r in selectors.connector_list(query="filesource").rows] == ["files"]
    assert [r.name for r in selectors.connector_list(sort="-name", per_page=2).rows] == ["files", "d"]
    assert selectors.connector_list(cluster="other").rows == []


def test_a_cluster_that_does_not_respond_is_a_problem_of_its_row(state: WorkerState, settings: Any) -> None:
    state.add("a")
    settings.WEIR = replace(settings.WEIR, connect_urls=(("gone", (NOBODY,)), ("etl", (state.url,))))
    page = selectors.connector_list()
    gone, etl = page.clusters
    assert "gone did not respond" in gone.problem and gone.connectors is None and gone.version is None
    assert etl.problem == "" and [r.name for r in page.rows] == ["a"]


def test_a_page_waits_a_bounded_time(state: WorkerState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "READ_SECONDS", 30.0)
    monkeypatch.setattr(selectors, "PAGE_SECONDS", 0.3)
    state.waiting = True
    started = time.monotonic()
    page = selectors.connector_list()
    assert time.monotonic() - started < 15
    assert "did not respond within" in page.clusters[0].problem


def test_one_connector_without_its_secrets(state: WorkerState, world: World) -> None:
    world.topic("orders", (1, 2))
    state.add(
        "jdbc",
        tasks=1,
        connection_password="s3cr3t-password",
        connection_auth="typed-secret",
        connection_url="jdbc:x://shop:s3cr3t-password@db/x",
    )
    state.fail_task("jdbc")
    state.topics["jdbc"] = ["orders", "elsewhere"]
    state.offsets["jdbc"] = [{"partition": {"kafka_partition": 0}, "offset": {"kafka_offset": 9}}]
    found = selectors.connector_detail("etl", "jdbc")
    assert found is not None
    assert "s3cr3t-password" not in str(asdict(found)) and "typed-secret" not in str(asdict(found))
    assert "no route to db with ********" in found.tasks[0].trace
    assert found.topics is not None and [(t.name, t.exists) for t in found.topics] == [
        ("elsewhere", False),
        ("orders", True),
    ]
    assert found.offsets is not None and found.offsets[0].offset == '{"kafka_offset": 9}'
    before = found.version
    state.connectors["jdbc"]["connection.password"] = "another-secret"
    again = selectors.connector_detail("etl", "jdbc")
    assert again is not None and again.version != before and again.config == found.config
    assert selectors.connector_detail("etl", "gone") is None


def test_parts_that_the_workers_do_not_report_are_unknown(state: WorkerState) -> None:
    state.add("jdbc")
    state.statuses |= {f"/connectors/jdbc/{part}": (404, {}) for part in ("status", "topics", "offsets")}
    found = selectors.connector_detail("etl", "jdbc")
    assert found is not None and found.topics is None and found.offsets is None
    assert found.row.state == "UNKNOWN" and found.tasks == []


def test_a_connect_cluster_of_another_kafka_cluster_is_marked(state: WorkerState, world: World) -> None:
    assert selectors.connector_list().clusters[0].is_this_cluster is True
    state.cluster_id = "other"
    assert selectors.connector_list().clusters[0].is_this_cluster is False


def test_a_cluster_has_to_be_configured(state: WorkerState, settings: Any) -> None:
    with pytest.raises(Rejected, match="configured: etl"):
        selectors.connector_detail("other", "a")
    settings.WEIR = replace(settings.WEIR, connect_urls=())
    with pytest.raises(Rejected, match="WEIR_CONNECT_URLS"):
        selectors.plugin_list("etl")
    assert selectors.connector_list().clusters == []
