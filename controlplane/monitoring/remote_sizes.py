"""Remote sizes in memory, as the leaders of partitions with tiered storage report them, and their rows.

Invariant: a partition whose leader does not report it has no row: unknown is not zero. Does not contain local sizes (`samples`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from controlplane.clients.broker_samples import BrokerSample, RemoteSample
from controlplane.clients.group_samples import Key
from controlplane.models import RemoteSize

BATCH = 500
"""Rows per statement."""


@dataclass(frozen=True, slots=True)
class RemoteMetrics:
    """`leader`: the broker that reported them."""

    leader: int
    sample: RemoteSample
    at_ms: int
    read_bytes_per_s: float | None


class RemoteSizeCache:
    def __init__(self) -> None:
        self.known: dict[Key, RemoteMetrics] = {}
        self._changed: set[Key] = set()
        self._stored = False

    def apply(self, sample: BrokerSample, leaders: Mapping[Key, int]) -> None:
        """Apply the sample of one broker. A sample without remote sizes changes nothing."""
        if sample.remote is None:
            return
        for key, reported in sample.remote.items():
            if leaders.get(key) == sample.broker_id:
                metrics = RemoteMetrics(
                    sample.broker_id, reported, sample.at_ms, self._rate(key, sample.broker_id, reported, sample.at_ms)
                )
                self.known[key] = metrics
                self._changed.add(key)
        for key, leader in leaders.items():
            if leader == sample.broker_id and key not in sample.remote and self.known.pop(key, None) is not None:
                self._changed.add(key)

    def _rate(self, key: Key, leader: int, reported: RemoteSample, at_ms: int) -> float | None:
        """Bytes per second since the last sample of the same leadership; None: there is none. The counter starts at zero with each leadership."""
        before = self.known.get(key)
        if before is None or before.leader != leader or before.at_ms >= at_ms or reported.read < before.sample.read:
            return None
        return (reported.read - before.sample.read) * 1000 / (at_ms - before.at_ms)

    def write(self, partition_pk: Callable[[Key], int | None], now: datetime) -> None:
        """Write the changes to rows, in a separate transaction. Raises DatabaseError; a repeated call writes them again. The first call deletes the rows
        of an earlier process."""
        rows, gone = [], []
        for key in self._changed:
            if (pk := partition_pk(key)) is None:
                continue
            metrics = self.known.get(key)
            if metrics is None:
                gone.append(pk)
            else:
                rows.append(
                    RemoteSize(
                        partition_id=pk,
                        remote_bytes=metrics.sample.remote,
                        local_only_bytes=metrics.sample.local_only,
                        copying_bytes=metrics.sample.copying,
                        read_bytes_per_s=metrics.read_bytes_per_s,
                        local_start_offset=metrics.sample.local_start,
                        sampled_at=now,
                    )
                )
        with transaction.atomic():
            if not self._stored:
                RemoteSize.objects.all().delete()
            RemoteSize.objects.bulk_create(
                rows,
                batch_size=BATCH,
                update_conflicts=True,
                unique_fields=["partition"],
                update_fields=[
                    "remote_bytes",
                    "local_only_bytes",
                    "copying_bytes",
                    "read_bytes_per_s",
                    "local_start_offset",
                    "sampled_at",
                ],
            )
            for at in range(0, len(gone), BATCH):
                RemoteSize.objects.filter(pk__in=gone[at : at + BATCH]).delete()
        self._changed.clear()
        self._stored = True
