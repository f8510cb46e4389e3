"""The page Clusters and the menu of clusters."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from console.views.clusters import PROBLEMS
from controlplane.domain.other_cluster import ClusterProblem, OtherConsole, metrics_of
from controlplane.models import OtherCluster
from tests.unit.controlplane.domain.test_other_cluster import OVERVIEW

CONSOLES = (
    OtherConsole("production", "https://prod.example", "red", "weir_a", ""),
    OtherConsole("staging", "https://stage.example", "green", "weir_b", ""),
)


def row(console: OtherConsole, problem: ClusterProblem, age_s: float) -> None:
    OtherCluster.objects.create(
        name=console.name,
        url=console.url,
        tried_at=timezone.now(),
        answered_at=timezone.now() - timedelta(seconds=age_s),
        problem=problem,
        detail="Connection refused" if problem != ClusterProblem.NONE else "",
        metrics=asdict(metrics_of({**OVERVIEW, "health": {"word": "healthy", "reason": "All is well."}})),
    )


def text(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def test_an_unreachable_cluster_is_never_shown_as_healthy(viewer: Client, settings: Any) -> None:
    settings.OTHER_CONSOLES = CONSOLES
    row(CONSOLES[0], ClusterProblem.NONE, 2)
    row(CONSOLES[1], ClusterProblem.NO_CONNECTION, 300)
    page = text(viewer, "/clusters/")
    production, staging = (
        page.split("https://prod.example/")[-1].split("https://stage.example/")[0],
        page.split("https://stage.example/")[-1],
    )
    assert "healthy" in production and "unreachable" not in production
    assert "unreachable" in staging and "no connection" in staging and "5 min" in staging and "healthy" not in staging
    assert "weir_a" not in page and "weir_b" not in page


def test_the_menu_has_each_cluster_with_its_colour(viewer: Client, settings: Any) -> None:
    assert 'id="cluster-menu"' not in text(viewer, "/topics/")
    settings.OTHER_CONSOLES = CONSOLES
    page = text(viewer, "/topics/")
    assert 'data-console="https://prod.example"' in page and 'data-colour="red"' in page and "All clusters" in page


def test_each_problem_has_its_text_also_that_of_a_console_that_never_answered(viewer: Client, settings: Any) -> None:
    assert set(PROBLEMS) == set(ClusterProblem) - {ClusterProblem.NONE}
    settings.OTHER_CONSOLES = CONSOLES[:1]
    assert "This console has never answered." in text(viewer, "/clusters/")
    settings.OTHER_CONSOLES = ()
    assert "WEIR_CLUSTERS_FILE" in text(viewer, "/clusters/")


@pytest.mark.parametrize(
    ("health", "reason"),
    [
        ({"reason_code": "partitions_offline", "reason_values": {"count": 2}}, "2 个分区没有 Leader。"),
        ({"reason_code": "alert", "reason_values": {}}, ""),
        ({"reason_code": "of a newer version", "reason_values": {}}, ""),
        ({"reason_code": "partitions_offline", "reason_values": {}}, ""),
        ({}, ""),
    ],
)
def test_the_reason_of_another_console_is_translated_by_its_code(
    viewer: Client, settings: Any, health: dict[str, Any], reason: str
) -> None:
    settings.OTHER_CONSOLES = CONSOLES[:1]
    row(CONSOLES[0], ClusterProblem.NONE, 2)
    given = {"word": "at_risk", "reason": "An English sentence.", **health}
    OtherCluster.objects.update(metrics=asdict(metrics_of({**OVERVIEW, "health": given})))
    assert "An English sentence." in text(viewer, "/clusters/") or reason
    viewer.cookies["weir_language"] = "zh-hans"
    page = text(viewer, "/clusters/")
    assert reason in page and "An English sentence." not in page
