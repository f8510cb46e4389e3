"""The constraints that make a sending of a dead letter unique."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, transaction

from controlplane.models import DeadLetterBatch, SentDeadLetter

pytestmark = pytest.mark.django_db
TOPIC = UUID(int=1)


def batch(**values: Any) -> DeadLetterBatch:
    return DeadLetterBatch.objects.create(
        **{"topic": "t.dead", "topic_id": TOPIC, "partition": 0, "target": "t", "actor": "olga", **values}
    )


def create_sent_dead_letter(of: DeadLetterBatch, offset: int, target: str = "t") -> SentDeadLetter:
    return SentDeadLetter.objects.create(batch=of, topic_id=TOPIC, partition=0, offset=offset, target=target)


def test_one_batch_of_a_partition_is_open_at_a_time() -> None:
    first = batch()
    with pytest.raises(IntegrityError), transaction.atomic():
        batch(target="t.retry")
    batch(partition=1)
    first.state = "sent"
    first.save()
    assert "t.dead-0 to t, sent" in str(first)
    batch()


def test_a_dead_letter_is_sent_once_to_a_target() -> None:
    of = batch(state="sent")
    create_sent_dead_letter(of, 1)
    create_sent_dead_letter(of, 1, "t.retry")
    with pytest.raises(IntegrityError), transaction.atomic():
        create_sent_dead_letter(of, 1)
    assert str(create_sent_dead_letter(of, 2)) == "dead letter 0@2 to t"
