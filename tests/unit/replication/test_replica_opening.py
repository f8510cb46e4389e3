"""Opening of replicas: lost records are reported, and a deleted replica leaves no directory and no checkpoint."""

from __future__ import annotations

import random

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.image import Image
from brokerd.cluster.znodes import LOST
from brokerd.storage import checkpoints
from tests.simulation.disk import SimDisk
from tests.unit.replication.test_relocations import TP, A, Harness


def harness_with_committed_records() -> Harness:
    """Ten flushed records, all below the checkpointed high watermark."""
    harness = Harness(SimDisk())
    harness.append(10)
    harness.replica.log.flush()
    harness.replica_manager.replica_opening.checkpoint()
    return harness


def test_the_high_watermark_is_the_checkpointed_one_and_at_most_the_log_end() -> None:
    harness = harness_with_committed_records()
    again = Harness(harness.disk.power_cut(random.Random(1)))
    assert again.replica.core.high_watermark == again.replica.log.end_offset == 10
    assert not again.replica_manager.damage_reports.reports()


def test_a_start_keeps_the_checkpoint_until_the_metadata_is_loaded() -> None:
    """A broker that waited for ZooKeeper longer than the interval of checkpoints replaced them by empty ones, and did not see what it had lost."""
    harness = harness_with_committed_records()
    harness.replica.log.truncate_to(4)
    harness.replica.log.flush()
    disk, lost = harness.disk.killed(), []
    waiting = Harness(disk, lost=lost.append, loads=False)
    waiting.replica_manager.replica_opening.checkpoint_later()
    waiting.replica_manager.replica_opening.checkpoint()
    waiting.load()
    assert lost == ["the log of t-0 ends at 4, below its high watermark 10"]


def test_a_replica_that_cannot_be_opened_keeps_its_checkpoint() -> None:
    harness = harness_with_committed_records()
    opening = harness.replica_manager.replica_opening
    del harness.replica_manager.hosted[TP]
    opening.checkpoint()
    assert checkpoints.read_offsets(harness.disk, A / checkpoints.HIGH_WATERMARKS) == {("t", 0): 10}
    harness.replica_manager.image = Image()
    opening.checkpoint()
    assert checkpoints.read_offsets(harness.disk, A / checkpoints.HIGH_WATERMARKS) == {}, "not assigned"


def test_a_log_below_its_high_watermark_is_reported_as_lost() -> None:
    harness = harness_with_committed_records()
    harness.replica.log.truncate_to(4)
    harness.replica.log.flush()
    lost: list[str] = []
    again = Harness(harness.disk.killed(), lost=lost.append)
    assert lost == ["the log of t-0 ends at 4, below its high watermark 10"]
    (report,) = again.replica_manager.damage_reports.reports()
    assert (report.tp, report.kind) == (TP, LOST) and again.replica.core.high_watermark == 4


def test_a_directory_that_is_gone_is_reported_and_fetched_again() -> None:
    harness = harness_with_committed_records()
    opening, replica_manager = harness.replica_manager.replica_opening, harness.replica_manager
    harness.disk.rmtree(replica_manager.hosted.pop(TP).log.folder)
    replica_manager.log_dirs.gone.add("t-0")
    topic = harness.image.topics[TP.topic_id]
    again = opening.open(TP, topic, TopicConfig.from_overrides(topic.configs), harness.now)
    (report,) = replica_manager.damage_reports.reports()
    assert report.kind == LOST and "folder missing" in report.text and not replica_manager.log_dirs.gone
    assert (again.log.end_offset, again.core.high_watermark) == (0, 0), "not the checkpointed one"


def test_a_deleted_replica_leaves_no_directory_and_no_checkpoint() -> None:
    harness = harness_with_committed_records()
    opening, replica = harness.replica_manager.replica_opening, harness.replica
    del harness.replica_manager.hosted[TP]
    opening.pending_deletion.append(replica)
    opening.delete_pending()
    assert harness.folders() == [] and not opening.pending_deletion
    assert ("t", 0) not in checkpoints.read_offsets(harness.disk, A / checkpoints.HIGH_WATERMARKS)
