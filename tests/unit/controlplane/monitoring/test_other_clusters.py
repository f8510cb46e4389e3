"""Rounds of requests to other consoles, and what is shown of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.clients.other_consoles import ConsoleUnreadable
from controlplane.domain.other_cluster import ClusterMetrics, ClusterProblem, OtherConsole, metrics_of
from controlplane.models import OtherCluster
from controlplane.monitoring import other_clusters
from controlplane.monitoring.hub import Hub
from controlplane.monitoring.other_clusters import OtherClusterReader
from controlplane.selectors.other_clusters import ClusterRow, cluster_rows
from controlplane.selectors.overview import overview
from tests.unit.controlplane.domain.test_other_cluster import OVERVIEW

pytestmark = pytest.mark.django_db
A = OtherConsole("a", "https://a.example", "red", "weir_a", "")
B = OtherConsole("b", "https://b.example", "none", "weir_b", "")


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch, settings: Any) -> dict[str, ClusterProblem]:
    """The problem of each console by name; none: it answers."""
    problems: dict[str, ClusterProblem] = {}

    def read(console: OtherConsole) -> ClusterMetrics:
        if console.name in problems:
            raise ConsoleUnreadable(problems[console.name], "detail")
        return metrics_of(OVERVIEW)

    monkeypatch.setattr(other_clusters, "read_metrics", read)
    settings.OTHER_CONSOLES = (A, B)
    return problems


def rows() -> dict[str, ClusterRow]:
    return {row.name: row for row in cluster_rows(overview())[1:]}


def test_a_console_that_does_not_respond_keeps_the_last_metrics_with_their_age_and_the_cause(
    responses: dict[str, ClusterProblem],
) -> None:
    hub = Hub()
    reader = OtherClusterReader(hub)
    assert [row.problem for row in rows().values()] == ["not_read", "not_read"]
    responses["b"] = ClusterProblem.TIMEOUT
    reader.read_all()
    assert rows()["a"].is_current and rows()["a"].metrics == metrics_of(OVERVIEW)
    assert (rows()["b"].problem, rows()["b"].metrics, rows()["b"].detail) == ("timeout", None, "detail")
    responses.clear()
    responses["a"] = ClusterProblem.NO_CONNECTION
    reader.read_all()
    assert rows()["a"].problem == "no_connection" and rows()["a"].metrics == metrics_of(OVERVIEW)
    assert rows()["a"].response_age_s is not None and rows()["b"].is_current
    assert hub.latest()[1] == 2, "one live update per round"


def test_a_monitor_that_stopped_leaves_nothing_current(responses: dict[str, ClusterProblem]) -> None:
    OtherClusterReader(Hub()).read_all()
    OtherCluster.objects.update(answered_at=timezone.now() - timedelta(minutes=2))
    assert [row.problem for row in rows().values()] == ["old", "old"]


def test_another_address_does_not_keep_metrics_and_a_removed_console_no_row(
    responses: dict[str, ClusterProblem], settings: Any
) -> None:
    reader = OtherClusterReader(Hub())
    reader.read_all()
    settings.OTHER_CONSOLES = (OtherConsole("a", "https://moved.example", "red", "weir_a", ""),)
    assert rows()["a"].problem == "not_read"
    responses["a"] = ClusterProblem.TIMEOUT
    reader.read_all()
    assert OtherCluster.objects.get().metrics is None
    settings.OTHER_CONSOLES = ()
    reader.read_all()
    assert not OtherCluster.objects.exists() and rows() == {}
