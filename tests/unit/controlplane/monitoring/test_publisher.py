"""Live updates of the monitor: they follow the rows that a page reads."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.image import Image
from controlplane.clients.broker_samples import BrokerSample
from controlplane.clients.group_samples import GroupSample
from controlplane.domain.lag import LagStatus
from controlplane.models import Broker
from controlplane.monitoring import publisher
from controlplane.monitoring.group_metrics import GroupMetrics
from controlplane.monitoring.hub import Hub
from controlplane.monitoring.projection import BrokerSums, Difference, broker_sums
from controlplane.monitoring.publisher import LivePublisher
from controlplane.monitoring.samples import MetricsCache, SampleChanges
from tests.unit.controlplane.monitoring.test_samples import sample
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_a_changed_replica_count_is_published_after_its_row_is_written(world: World) -> None:
    """A page reads its rows again after a notification. If the notification came before the write, the page would show the old rows forever."""
    world.topic("flights", (1, 2))
    hub, metrics = Hub(), MetricsCache()
    reported = LivePublisher(hub)
    reported.image(world.image, Difference(), metrics)

    heard: list[dict[int, Any]] = []
    hub.listen(
        lambda u: (
            heard.append({b["broker_id"]: b["replicas_on_disk"] for b in u["data"]["brokers"]})
            if u["kind"] == "brokers"
            else None
        )
    )
    changed = metrics.apply([sample(1000, 100)], {}, world.image, 1000)
    reported.samples(changed, metrics)
    assert all(h[1] is None for h in heard), "no row says so yet"
    metrics.write(changed, world.projection, world.image)
    assert Broker.objects.get(broker_id=1).replicas_on_disk == 1
    reported.samples(metrics.apply([sample(2000, 100)], {}, world.image, 2000), metrics)
    assert heard[-1][1] == 1


def test_a_broker_that_does_not_respond_is_published_with_the_time_of_its_values(world: World) -> None:
    world.topic("flights", (1, 2))
    hub, metrics = Hub(), MetricsCache()
    heard: list[dict[int, Any]] = []
    hub.listen(
        lambda u: heard.append({b["broker_id"]: b for b in u["data"]["brokers"]}) if u["kind"] == "brokers" else None
    )
    reported = LivePublisher(hub)
    reported.image(world.image, Difference(), metrics)
    failed = BrokerSample(1, 1000, {}, {}, failed=("/b",), slow=("/a",))
    reported.samples(metrics.apply([failed], {}, world.image, 1000), metrics)
    found = heard[-1][1]
    assert (found["dirs_failed"], found["dirs_slow"], found["size_as_of_ms"]) == (["/b"], ["/a"], None)
    reported.samples(metrics.apply([], {1: "no response"}, world.image, 9000), metrics)
    assert (heard[-1][1]["answered"], heard[-1][1]["size_as_of_ms"]) == (False, 1000)
    world.down(1)
    reported.image(world.image, Difference(brokers=True), metrics)
    reported.samples(metrics.apply([], {}, world.image, 10_000), metrics)
    down = heard[-1][1]
    assert (down["alive"], down["answered"], down["size_as_of_ms"]) == (False, None, 1000)


def test_the_sums_of_the_brokers_are_computed_once_per_image(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are sums over all partitions: with 100,000 they took a tenth of the CPU of the web process, once for each round of samples."""
    computed = []

    def sums(image: Image) -> dict[int, BrokerSums]:
        computed.append(image.seq)
        return broker_sums(image)

    monkeypatch.setattr(publisher, "broker_sums", sums)
    world.topic("flights", (1, 2))
    feed, metrics = LivePublisher(Hub()), MetricsCache()
    feed.image(world.image, Difference(), metrics)
    for at in (1000, 2000, 3000):
        feed.samples(metrics.apply([sample(at, 100)], {}, world.image, at), metrics)
    assert len(computed) == 1
    feed.image(world.image, Difference(brokers=True), metrics)
    assert len(computed) == 2


def test_a_changed_status_of_a_group_is_published_with_its_rows() -> None:
    hub = Hub()
    feed, metrics = LivePublisher(hub), MetricsCache()

    def is_published(status: LagStatus) -> bool:
        metrics.groups["g"] = GroupMetrics(
            GroupSample("g", "Stable", "consumer", "range", (), {}), 1, 0, {}, status=status
        )
        feed.samples(SampleChanges(groups={"g"}), metrics)
        *_, update = [u for u in hub.since(hub.run, 0) or [] if u["kind"] == "groups"]
        return bool(update["data"]["statuses_changed"])

    assert [is_published(s) for s in (LagStatus.HEALTHY, LagStatus.HEALTHY, LagStatus.STALLED, LagStatus.STALLED)] == [
        False,
        False,
        True,
        False,
    ]
