"""Rows in disaster recovery: the image that they describe, and rows that are applied again."""

from __future__ import annotations

from uuid import uuid4

import pytest

from brokerd.cluster.levels import LEVEL_MAX
from controlplane.disaster import rows
from controlplane.models import AccessEntry, Cluster, HandledRequest, Topic
from controlplane.services import access
from tests.unit.controlplane.disaster.test_backups import T, image, row

pytestmark = pytest.mark.django_db


def test_rows_missing_in_the_log_are_pending_again_and_old_requests_are_deleted() -> None:
    row(generation=5)
    row(uuid4(), "kept", generation=1, applied_generation=0)
    HandledRequest.objects.create(request_id="57-3", kind="create_topics")
    notes = rows.reset_rows(image())
    assert Topic.objects.get(id=T).applied_generation == 2 and len(notes) == 1
    assert not HandledRequest.objects.exists()


def test_an_applied_row_missing_in_the_backups_log_is_added_with_its_configs() -> None:
    later = row(uuid4(), "later", generation=3, partitions=2, configs={"cleanup.policy": "compact"})
    known = image()
    rows.add_applied_rows(known, [1, 2, 3])
    topic = known.topics[later.id]
    assert (topic.configs, topic.generation, topic.partition_count) == ({"cleanup.policy": "compact"}, 3, 2)
    assert {len(s.replicas) for s in topic.partitions.values()} == {2}
    assert known.topic_named("later") is topic


def test_a_deleted_row_is_a_tombstone_and_an_unapplied_row_is_ignored() -> None:
    row(generation=4, deleted_at="2026-01-01T00:00:00Z")
    never = row(uuid4(), "never", generation=1, applied_generation=0)
    known = image()
    rows.add_applied_rows(known, [1])
    assert known.deleted == {T: 4} and not known.topics and known.topic_named("t") is None
    assert never.id not in known.topics


def test_an_unapplied_change_keeps_the_configs_of_the_log() -> None:
    row(generation=3, applied_generation=2, configs={"retention.ms": "1"})
    known = image()
    rows.add_applied_rows(known, [1, 2])
    assert known.topics[T].configs == {"retention.ms": "9"} and known.topics[T].generation == 2


def test_observed_rows_of_another_cluster_are_ignored() -> None:
    Cluster.objects.create(pk=1, cluster_id="begun-by-mistake", metadata_seq=9)
    assert rows.known_image("c", [1]).seq == 0
    assert rows.known_image("", [1]).cluster_id == "begun-by-mistake"


def test_a_log_rebuilt_from_rows_has_the_highest_level() -> None:
    """At a lower level the controller could not write the ACLs of the rows."""
    assert rows.known_image("c", [1]).metadata_version == LEVEL_MAX


def test_import_creates_rows_once_and_changes_no_existing_row() -> None:
    assert rows.import_topics(image(), actor="import") == (["t"], [])
    made = Topic.objects.get(id=T)
    assert (made.configs, made.generation, made.applied_generation, made.replication_factor) == (
        {"retention.ms": "9"},
        2,
        2,
        2,
    )
    assert rows.import_topics(image(), actor="import") == ([], [])
    made.delete()
    row(uuid4(), "t")
    imported, notes = rows.import_topics(image(), actor="import")
    assert imported == [] and "another topic of this name" in notes[0]


def test_throttles_of_lost_moves_are_not_imported() -> None:
    lost = image()
    lost.topics[T].configs |= {"leader.replication.throttled.replicas": "0:1"}
    lost.broker_configs |= {1: (3, {"leader.replication.throttled.rate": "5"}), 2: (4, {})}
    rows.import_topics(lost, actor="import")
    made = Topic.objects.get()
    assert (made.configs, made.generation, made.applied_generation) == ({"retention.ms": "9"}, 3, 2)
    assert access.import_access(lost, actor="import") == 2
    settings = {r.key: (r.value, r.generation, r.applied_generation, r.waiting) for r in AccessEntry.objects.all()}
    assert settings == {"1": ({}, 4, 3, True), "2": ({}, 4, 4, False)}
