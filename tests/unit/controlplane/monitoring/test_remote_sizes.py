"""Remote sizes become rows, with the rate of reads; a partition that its leader no longer reports has none."""

from __future__ import annotations

import pytest
from django.utils import timezone

from controlplane.clients.broker_samples import BrokerSample, RemoteSample
from controlplane.clients.group_samples import Key
from controlplane.models import ObservedPartition, RemoteSize
from controlplane.monitoring.remote_sizes import RemoteSizeCache
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
F0, F1 = ("flights", 0), ("flights", 1)


def sample(at_ms: int, broker: int = 1, **remote: tuple[int, int, int, int]) -> BrokerSample:
    sizes = {(name[:-1], int(name[-1])): RemoteSample(*values) for name, values in remote.items()}
    return BrokerSample(broker, at_ms, remote=sizes)


class Scene:
    def __init__(self, world: World) -> None:
        world.topic("flights", (1, 2), (1, 2))
        self.leaders: dict[Key, int] = {F0: 1, F1: 1}
        self.sizes = RemoteSizeCache()

    def write_samples(self, *samples: BrokerSample) -> dict[int, tuple[int, int, int, float | None]]:
        for one in samples:
            self.sizes.apply(one, self.leaders)
        pks = {("flights", p.index): p.pk for p in ObservedPartition.objects.all()}
        self.sizes.write(pks.get, timezone.now())
        return {
            r.partition.index: (r.remote_bytes, r.local_only_bytes, r.copying_bytes, r.read_bytes_per_s)
            for r in RemoteSize.objects.select_related("partition")
        }


def test_sizes_of_the_leader_become_rows_with_the_rate_of_reads(world: World) -> None:
    scene = Scene(world)
    assert scene.write_samples(sample(1_000, flights0=(500, 80, 40, 100))) == {0: (500, 80, 40, None)}
    other = sample(2_500, broker=2, flights0=(9, 9, 9, 9))
    assert scene.write_samples(sample(3_000, flights0=(540, 60, 0, 700)), other) == {0: (540, 60, 0, 300.0)}
    scene.leaders[F0] = 2
    assert scene.write_samples(sample(5_000, broker=2, flights0=(540, 70, 0, 0))) == {0: (540, 70, 0, None)}


def test_the_local_log_start_of_the_leader_is_in_the_row(world: World) -> None:
    scene = Scene(world)
    scene.write_samples(BrokerSample(1, 1_000, remote={F0: RemoteSample(1, 1, 0, 0, 40), F1: RemoteSample(1, 1, 0, 0)}))
    rows = RemoteSize.objects.order_by("partition__index").values_list("local_start_offset", flat=True)
    assert list(rows) == [40, None], "a broker of an earlier version does not report it"


def test_a_partition_that_its_leader_does_not_report_has_no_row(world: World) -> None:
    scene = Scene(world)
    assert set(scene.write_samples(sample(1_000, flights0=(1, 1, 0, 0), flights1=(2, 2, 0, 0)))) == {0, 1}
    assert set(scene.write_samples(BrokerSample(1, 2_000))) == {0, 1}, "sizes were not requested"
    assert set(scene.write_samples(sample(3_000, flights1=(2, 2, 0, 0)))) == {1}
    scene.sizes = RemoteSizeCache()
    assert scene.write_samples(sample(4_000)) == {}, "the row of an earlier process"
