"""The age of the shown data: the monitor, ZooKeeper and the samples of brokers are separate facts."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from controlplane.models import Cluster
from controlplane.monitoring.age import data_age
from controlplane.selectors.alerts import SILENT_AGE_S
from tests.unit.controlplane.world import World


def update(**ages_s: float | None) -> None:
    now = timezone.now()
    Cluster.objects.update(
        **{name: None if age is None else now - timedelta(seconds=age) for name, age in ages_s.items()}
    )


def test_a_cluster_that_was_never_read_has_no_age(db: None) -> None:
    found = data_age()
    assert (found.age_s, found.zookeeper_away, found.samples_current) == (None, False, False)


def test_an_unreachable_zookeeper_is_reported_only_while_the_monitor_runs(world: World) -> None:
    Cluster.objects.update(zookeeper_connected=False)
    update(heartbeat_at=0, observed_at=90)
    assert data_age().zookeeper_away
    update(heartbeat_at=SILENT_AGE_S + 1)
    assert not data_age().zookeeper_away


def test_samples_are_current_for_a_while(world: World) -> None:
    update(sampled_at=0)
    assert data_age().samples_current
    update(sampled_at=SILENT_AGE_S + 1)
    assert not data_age().samples_current
