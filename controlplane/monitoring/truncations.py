"""Truncations that brokers report, from their samples to rows.

Invariants: a truncation is stored once, although a broker reports it until it drops it. The row stays afterwards. One of a topic that the image
does not have is not stored: the topic was deleted, or the image is older than the truncation and a later one has it. Does not contain: which truncations a
broker keeps (`brokerd.replication.truncations`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction

from brokerd.cluster.image import Image
from controlplane.clients.broker_samples import BrokerSample, TruncationSample
from controlplane.domain.times import utc_of_ms
from controlplane.models import ReplicaTruncation

KEPT = timedelta(days=90)
"""Time for which a row is kept: longer than an investigation of lost records takes."""


class TruncationRecorder:
    def __init__(self) -> None:
        self._stored: dict[int, frozenset[TruncationSample]] = {}
        """The truncations of the last sample of each broker that are rows already."""

    def write(self, samples: Iterable[BrokerSample], image: Image, now: datetime) -> None:
        """Write the rows. Idempotent. Raises DatabaseError."""
        found = {
            s.broker_id: frozenset(t for t in s.truncations if t.topic_id in image.topics)
            for s in samples
            if s.truncations is not None
        }
        new = [
            _row(broker_id, t, image.topics[t.topic_id].name)
            for broker_id, truncations in found.items()
            for t in truncations - self._stored.get(broker_id, frozenset())
        ]
        if new:
            with transaction.atomic():
                ReplicaTruncation.objects.bulk_create(new, ignore_conflicts=True)
                ReplicaTruncation.objects.filter(truncated_at__lt=now - KEPT).delete()
        self._stored |= found


def _row(broker_id: int, truncation: TruncationSample, topic: str) -> ReplicaTruncation:
    return ReplicaTruncation(
        topic_id=truncation.topic_id,
        topic_name=topic,
        partition=truncation.partition,
        broker_id=broker_id,
        first_offset=truncation.first_offset,
        end_offset=truncation.end_offset,
        high_watermark=truncation.high_watermark,
        leader_epoch=truncation.leader_epoch,
        truncated_at=utc_of_ms(truncation.at_ms),
    )
