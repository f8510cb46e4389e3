"""Truncations of samples become rows once."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from brokerd.cluster.image import Image
from controlplane.clients.broker_samples import BrokerSample, TruncationSample
from controlplane.models import ReplicaTruncation
from controlplane.monitoring.truncations import KEPT, TruncationRecorder
from controlplane.selectors.truncations import partition_truncations
from tests.unit.controlplane.world import World

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
AT_MS = int(NOW.timestamp() * 1000)


def sample(image: Image, *offsets: tuple[int, int], topic_id: UUID | None = None) -> BrokerSample:
    topic_id = topic_id or image.topic_ids["flights"]
    found = (TruncationSample(topic_id, 0, first, end, 520, 3, AT_MS + first) for first, end in offsets)
    return BrokerSample(broker_id=2, at_ms=AT_MS, truncations=tuple(found))


def test_a_truncation_is_stored_once_and_again_after_a_restart_of_the_monitor(world: World) -> None:
    world.topic("flights", (1, 2))
    recorder = TruncationRecorder()
    recorder.write([sample(world.image, (500, 540))], world.image, NOW)
    recorder.write([sample(world.image, (500, 540), (600, 601))], world.image, NOW)
    TruncationRecorder().write([sample(world.image, (500, 540), (600, 601))], world.image, NOW)
    newer, older = ReplicaTruncation.objects.all()
    assert (older.topic_name, older.partition, older.broker_id) == ("flights", 0, 2)
    assert (older.first_offset, older.end_offset, older.high_watermark, older.leader_epoch) == (500, 540, 520, 3)
    assert newer.first_offset == 600 and older.truncated_at.timestamp() * 1000 == AT_MS + 500


def test_a_truncation_of_a_deleted_topic_and_a_sample_without_truncations_are_ignored(world: World) -> None:
    world.topic("flights", (1, 2))
    recorder = TruncationRecorder()
    recorder.write([sample(world.image, (1, 2), topic_id=UUID(int=9))], world.image, NOW)
    recorder.write([BrokerSample(broker_id=2, at_ms=AT_MS)], world.image, NOW)
    assert not ReplicaTruncation.objects.exists()


def test_a_truncation_stays_when_its_broker_has_restarted(world: World) -> None:
    """A broker keeps its truncations in memory: after its restart it reports none."""
    world.topic("flights", (1, 2))
    recorder = TruncationRecorder()
    recorder.write([sample(world.image, (500, 540))], world.image, NOW)
    recorder.write([sample(world.image)], world.image, NOW)
    recorder.write([sample(world.image, (600, 601))], world.image, NOW)
    shown = partition_truncations("flights", 0)
    assert [(t.broker_id, t.first_offset, t.last_offset, t.acknowledged) for t in shown] == [
        (2, 600, 600, 0),
        (2, 500, 539, 20),
    ]


def test_a_truncation_of_a_topic_that_the_image_does_not_have_yet_is_stored_later(world: World) -> None:
    world.topic("flights", (1, 2))
    recorder = TruncationRecorder()
    recorder.write([sample(world.image, (500, 540))], Image(), NOW)
    assert not ReplicaTruncation.objects.exists()
    recorder.write([sample(world.image, (500, 540))], world.image, NOW)
    assert ReplicaTruncation.objects.count() == 1


def test_old_rows_are_deleted_when_another_one_is_stored(world: World) -> None:
    world.topic("flights", (1, 2))
    TruncationRecorder().write([sample(world.image, (500, 540))], world.image, NOW)
    ReplicaTruncation.objects.update(truncated_at=NOW - KEPT)
    TruncationRecorder().write([sample(world.image, (600, 601))], world.image, NOW)
    assert ReplicaTruncation.objects.count() == 2, "not older than KEPT"
    TruncationRecorder().write([sample(world.image, (700, 701))], world.image, NOW.replace(minute=1))
    assert list(ReplicaTruncation.objects.values_list("first_offset", flat=True)) == [700, 600]
