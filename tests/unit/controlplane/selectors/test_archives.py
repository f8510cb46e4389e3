"""Rows of archives: what is written per partition, gaps, and what is left."""

from __future__ import annotations

import pytest

from controlplane.models import ArchiveBatch, ArchiveJob, ObservedPartition
from controlplane.selectors import archives
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def job(state: str = "running") -> ArchiveJob:
    return ArchiveJob.objects.create(topics=["flights"], state=state, actor="alice", folder="/lake/1")


def batch(job: ArchiveJob, number: int, first: int, upto: int, partition: int = 0) -> None:
    ArchiveBatch.objects.create(
        job=job,
        batch=number,
        topic="flights",
        partition=partition,
        first_offset=first,
        next_offset=upto,
        rows=upto - first,
    )


def test_written_records_are_summed_per_partition_and_gaps_are_marked(world: World) -> None:
    world.topic("flights", (1, 2), (2, 1))
    ObservedPartition.objects.filter(index=0).update(end_offset=120)
    ObservedPartition.objects.filter(index=1).update(end_offset=None)
    mine = job()
    batch(mine, 0, 0, 50)
    batch(mine, 1, 50, 100)
    batch(mine, 0, 10, 20, partition=1)
    batch(mine, 1, 30, 40, partition=1)
    batch(job(), 0, 0, 999)
    whole, gap = archives.archive_written(mine.pk)
    assert (whole.first_offset, whole.next_offset, whole.rows, whole.batches, whole.gap, whole.left_records) == (
        0,
        100,
        100,
        2,
        False,
        20,
    )
    assert (gap.partition, gap.gap, gap.left_records) == (1, True, None), "the end of the log is not known"


@pytest.mark.parametrize(
    ("state", "can"), [("requested", ["stop"]), ("running", ["stop"]), ("stopping", []), ("stopped", ["resume"])]
)
def test_the_state_allows_acts(state: str, can: list[str]) -> None:
    row = archives.archive_row(job(state).pk)
    assert row is not None and row.can == can and row.heartbeat_age_s is None


def test_the_newest_archives_and_batches_are_first() -> None:
    first, second = job(), job()
    batch(first, 0, 0, 5)
    batch(first, 1, 5, 9)
    assert [a.id for a in archives.archive_list().rows] == [second.pk, first.pk]
    assert [b.batch for b in archives.archive_batches(first.pk).rows] == [1, 0]
    assert archives.archive_row(999) is None
