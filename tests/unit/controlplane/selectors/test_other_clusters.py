"""This cluster in the list of clusters. Other clusters: monitoring/test_other_clusters.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controlplane.domain.other_cluster import OtherConsole
from controlplane.selectors.other_clusters import ClusterLink, cluster_links, cluster_rows
from controlplane.selectors.overview import overview

pytestmark = pytest.mark.django_db


def test_this_cluster_is_first_and_links_come_from_the_settings_alone(
    settings: Any, django_assert_num_queries: Any
) -> None:
    settings.WEIR = replace(settings.WEIR, cluster_colour="green")
    own = overview()
    with django_assert_num_queries(0):
        (row,) = cluster_rows(own)
    assert (row.url, row.colour, row.is_current, row.metrics and row.metrics.health) == (
        "",
        "green",
        True,
        own.health.word,
    )
    settings.OTHER_CONSOLES = (OtherConsole("a", "https://a.example", "red", "weir_a", ""),)
    with django_assert_num_queries(0):
        assert cluster_links() == [ClusterLink("a", "https://a.example", "red")]
