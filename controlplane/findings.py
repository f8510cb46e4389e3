"""What brokers tell of their damaged copies, read from ZooKeeper and kept as rows. Law: a row opens when a broker tells of it and ends when it does
so no more; nothing is decided here. Called by the observer, in its thread. Must not come in: what is done about it (`services.recovery`)."""

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
from controlplane.models import ReplicaFinding

log = logging.getLogger(__name__)

DISK = "disk"
"""Kind of what a broker cannot serve at all, for its directory or a file of it failed: told in a node of its own, which the controller reads."""
OFFLINE_TEXT = "its directory or a file of it failed; it is not served"

Spot = tuple[TopicPartition, int, str]
"""Partition, broker, kind."""


@dataclass(slots=True)
class Reader:
    """Reads both kinds of nodes of all brokers once in a while; `found` is what they said at the last complete reading, None before it."""

    store: Store
    found: dict[Spot, str] | None = None
    _reading: dict[Spot, str] = field(default_factory=dict)
    _owed: int = 0
    _broken: bool = False

    def look(self) -> None:
        """Begin a reading; the answers come with the store's pump. One at a time."""
        if self._owed:
            return
        self._reading, self._broken = {}, False
        for parent, decode in ((znodes.FINDINGS, _findings), (znodes.OFFLINE, _offline)):
            self._owed += 1
            self.store.children(parent, lambda r, p=parent, d=decode: self._listed(r, p, d))  # type: ignore[misc]

    def lost(self) -> None:
        """The connection went: what is under way will not be answered."""
        self._owed = 0

    def _listed(self, result: Result, parent: str, decode: Callable[[int, bytes], Iterable[tuple[Spot, str]]]) -> None:
        if result.ok:
            for name in result.children:
                if name.isdigit():
                    self._owed += 1
                    self.store.get(f"{parent}/{name}", lambda r, b=int(name): self._read(r, b, decode))  # type: ignore[misc]
        elif result.code is not Code.NO_NODE:
            self._broken = True
        self._answered()

    def _read(self, result: Result, broker_id: int, decode: Callable[[int, bytes], Iterable[tuple[Spot, str]]]) -> None:
        if result.ok:
            try:
                self._reading.update(decode(broker_id, result.data))
            except (ValueError, KeyError, TypeError, zlib.error) as e:
                log.error("what broker %s tells of its copies cannot be read: %s", broker_id, e)
                self._broken = True
        elif result.code is not Code.NO_NODE:
            self._broken = True
        self._answered()

    def _answered(self) -> None:
        if not self._owed:
            return  # of a reading that was given up
        self._owed -= 1
        if not self._owed and not self._broken:
            self.found = self._reading


def _findings(broker_id: int, data: bytes) -> Iterable[tuple[Spot, str]]:
    _, found = znodes.decode_findings(data)
    return [((f.tp, broker_id, f.kind), f.text) for f in found]


def _offline(broker_id: int, data: bytes) -> Iterable[tuple[Spot, str]]:
    _, partitions = znodes.decode_offline(data)
    return [((tp, broker_id, DISK), OFFLINE_TEXT) for tp in partitions]


def write(found: dict[Spot, str], image: Image) -> bool:
    """Make rows of it; whether anything is new. Raises DatabaseError."""
    open_rows = {
        (TopicPartition(r.topic_id, r.partition), r.broker_id, r.kind): r
        for r in ReplicaFinding.objects.filter(ended_at__isnull=True)
    }
    new = [spot for spot in found if spot not in open_rows and spot[0].topic_id in image.topics]
    over = [r.pk for spot, r in open_rows.items() if spot not in found]
    if not new and not over:
        return False
    with transaction.atomic():
        ReplicaFinding.objects.filter(pk__in=over).update(ended_at=timezone.now())
        ReplicaFinding.objects.bulk_create(
            ReplicaFinding(
                topic_id=tp.topic_id, topic_name=image.topics[tp.topic_id].name, partition=tp.partition, broker_id=broker_id,
                kind=kind, detail=found[tp, broker_id, kind],
            )
            for tp, broker_id, kind in new
        )  # fmt: skip
    return True
