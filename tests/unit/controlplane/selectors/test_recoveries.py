from __future__ import annotations

import uuid

import pytest
from django.utils import timezone

from controlplane.models import ReplicaDamageReport, ReplicaRecovery
from controlplane.selectors.recoveries import damaged_replicas_open, recovery_list

pytestmark = pytest.mark.django_db


def test_recoveries_are_filtered_by_progress_topic_and_partition() -> None:
    for number, (topic, partition, state) in enumerate(
        [("a", 0, "requested"), ("a", 1, "done"), ("b", 0, "copying")], 1
    ):
        ReplicaRecovery.objects.create(
            pk=number,
            topic_id=uuid.uuid4(),
            topic_name=topic,
            partition=partition,
            broker_id=1,
            state=state,
            actor="alice",
            comment="x",
        )
    assert [r.id for r in recovery_list().rows] == [3, 2, 1]
    assert [r.id for r in recovery_list(state="unfinished").rows] == [3, 1]
    assert [r.id for r in recovery_list(state="finished").rows] == [2]
    assert [r.id for r in recovery_list(topic="a", partition=0).rows] == [1]


def test_a_replica_with_two_reports_is_one_damaged_replica() -> None:
    topic_id = uuid.uuid4()
    for broker_id, kind, ended in (
        (1, "corrupt", False),
        (1, "diverged", False),
        (2, "corrupt", False),
        (3, "corrupt", True),
    ):
        ReplicaDamageReport.objects.create(
            topic_id=topic_id,
            topic_name="a",
            partition=0,
            broker_id=broker_id,
            kind=kind,
            ended_at=timezone.now() if ended else None,
        )
    assert damaged_replicas_open() == 2
