"""The configured minimum of in-sync replicas: the topic's, the cluster's, or Kafka's default."""

from __future__ import annotations

import pytest

from brokerd.cluster.configs import ALL_BROKERS
from brokerd.cluster.metadata import BROKER
from controlplane.models import AccessEntry
from controlplane.selectors.topic_configs import cluster_defaults, min_insync

NAME = "min.insync.replicas"


@pytest.mark.parametrize(
    ("own", "defaults", "least"),
    [({NAME: "3"}, {NAME: "2"}, 3), ({}, {NAME: "2"}, 2), ({}, {}, 1), ({"retention.ms": "x"}, {}, 1)],
)
def test_the_most_specific_value_applies(own: dict[str, str], defaults: dict[str, str], least: int) -> None:
    assert min_insync(own, defaults) == least


def test_a_value_that_is_no_number_counts_as_kafkas_default() -> None:
    assert min_insync({NAME: "many"}, {}) == 1


@pytest.mark.django_db
def test_the_defaults_of_the_cluster_are_its_settings_of_all_brokers() -> None:
    assert min_insync({}, cluster_defaults()) == 1
    AccessEntry.objects.create(kind=BROKER, key="1", value={NAME: "9"})
    AccessEntry.objects.create(kind=BROKER, key=str(ALL_BROKERS), value={NAME: "2"})
    assert min_insync({}, cluster_defaults()) == 2
