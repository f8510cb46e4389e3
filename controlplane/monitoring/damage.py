"""Damage reports of brokers about their replicas, read from ZooKeeper and stored as rows.

Invariant: a row is opened when a broker reports damage, and ended when the broker no longer reports it.
Does not contain: recovery (`services.recovery`).
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from django.db import transaction
from django.utils import timezone

from brokerd.cluster import znodes
from brokerd.cluster.image import Image
from brokerd.cluster.model import TopicPartition
from brokerd.cluster.store import Code, Result, Store
from controlplane.models import ReplicaDamageReport

log = logging.getLogger(__name__)

DISK = "disk"
"""Kind of a replica that is offline because its directory or a file failed. Reported in a separate node, which the controller reads."""
OFFLINE_TEXT = "log directory or file failed; the replica is offline"

DamageKey = tuple[TopicPartition, int, str]
"""Partition, broker, kind."""


@dataclass(slots=True)
class DamageReader:
    """Reads both kinds of nodes of all brokers. `found` is the result of the last complete read, None before it."""

    store: Store
    found: dict[DamageKey, str] | None = None
    _reading: dict[DamageKey, str] = field(default_factory=dict)
    _pending: int = 0
    _failed: bool = False

    def poll(self) -> None:
        """Start a read, one at a time. The store's pump delivers the results."""
        if self._pending:
            return
        self._reading, self._failed = {}, False
        for parent, decode in ((znodes.DAMAGE_REPORTS, _damage_reports), (znodes.OFFLINE, _offline)):
            self._pending += 1
            self.store.children(parent, lambda r, p=parent, d=decode: self._on_children(r, p, d))  # type: ignore[misc]

    def on_disconnected(self) -> None:
        """The connection was lost: a running read gets no results."""
        self._pending = 0

    def _on_children(
        self, result: Result, parent: str, decode: Callable[[int, bytes], Iterable[tuple[DamageKey, str]]]
    ) -> None:
        if result.ok:
            for name in result.children:
                if name.isdigit():
                    self._pending += 1
                    self.store.get(f"{parent}/{name}", lambda r, b=int(name): self._on_data(r, b, decode))  # type: ignore[misc]
        elif result.code is not Code.NO_NODE:
            self._failed = True
        self._finish_one()

    def _on_data(
        self, result: Result, broker_id: int, decode: Callable[[int, bytes], Iterable[tuple[DamageKey, str]]]
    ) -> None:
        if result.ok:
            try:
                self._reading.update(decode(broker_id, result.data))
            except (ValueError, KeyError, TypeError, zlib.error) as e:
                log.error("malformed damage report: broker=%s error=%s", broker_id, e)
                self._failed = True
        elif result.code is not Code.NO_NODE:
            self._failed = True
        self._finish_one()

    def _finish_one(self) -> None:
        if not self._pending:
            return  # this is the result of an abandoned read
        self._pending -= 1
        if not self._pending and not self._failed:
            self.found = self._reading


def _damage_reports(broker_id: int, data: bytes) -> Iterable[tuple[DamageKey, str]]:
    _, found = znodes.decode_damage_reports(data)
    return [((f.tp, broker_id, f.kind), f.text) for f in found]


def _offline(broker_id: int, data: bytes) -> Iterable[tuple[DamageKey, str]]:
    _, partitions = znodes.decode_offline(data)
    return [((tp, broker_id, DISK), OFFLINE_TEXT) for tp in partitions]


def write(reported: dict[DamageKey, str], image: Image) -> bool:
    """Write rows. Returns whether anything changed. Raises DatabaseError."""
    open_rows = {
        (TopicPartition(r.topic_id, r.partition), r.broker_id, r.kind): r
        for r in ReplicaDamageReport.objects.filter(ended_at__isnull=True)
    }
    new = [spot for spot in reported if spot not in open_rows and spot[0].topic_id in image.topics]
    over = [r.pk for spot, r in open_rows.items() if spot not in reported]
    if not new and not over:
        return False
    with transaction.atomic():
        ReplicaDamageReport.objects.filter(pk__in=over).update(ended_at=timezone.now())
        ReplicaDamageReport.objects.bulk_create(
            ReplicaDamageReport(
                topic_id=tp.topic_id,
                topic_name=image.topics[tp.topic_id].name,
                partition=tp.partition,
                broker_id=broker_id,
                kind=kind,
                detail=reported[tp, broker_id, kind],
            )
            for tp, broker_id, kind in new
        )
    return True
