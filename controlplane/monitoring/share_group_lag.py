"""Lag in time and status of share groups, in memory and as rows.

Invariants: None = not observed. A restart continues from the rows. A status is that of a consumer group, with the start offset of a share partition
instead of a committed offset. Does not contain: requests to brokers, the members (`share_group_samples`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from controlplane.clients.group_samples import Key
from controlplane.clients.share_groups import DescribedShareGroup, SharePartitionOffset
from controlplane.db.bulk import update_many
from controlplane.domain import lag
from controlplane.domain.alert_thresholds import AlertThresholds
from controlplane.domain.lag import Block, LagStatus
from controlplane.domain.lag_json import track_from_json, track_to_json
from controlplane.domain.log_ends import RecordAge
from controlplane.models import ShareGroupPartition
from controlplane.monitoring.group_lag import STORE_MS, STORE_ROWS_MAX, PartitionFacts, block_of, long_waits
from controlplane.monitoring.projection import BATCH

StableOf = Callable[[Key, PartitionFacts], int | None]
"""The last stable offset of a partition, if it is known."""

AgeOf = Callable[[Key, int, int], RecordAge | None]
"""(partition, offset, Unix ms) -> age of the record at the offset."""


IsFullOf = Callable[[str, Key, int | None], bool | None]
"""(group, partition, leader) -> whether the partition is at its limit of records in flight, if that is known."""


@dataclass(frozen=True, slots=True)
class SharePartitionLag:
    """`start`: the first offset whose delivery has not ended, None before the first fetch. `records`: number of records from `start` on whose delivery has not
    ended. `age`: of the record at `start`. `member_count`: number of members to which the partition is assigned. `block`: why the status is BLOCKED. `is_full`: the
    partition is at its limit of records in flight."""

    start: int | None
    records: int | None
    age: RecordAge | None
    status: LagStatus
    member_count: int
    block: Block = Block.NONE
    is_full: bool | None = None


@dataclass(frozen=True, slots=True)
class ShareGroupLag:
    partitions: Mapping[Key, SharePartitionLag]

    @property
    def age(self) -> RecordAge | None:
        """The greatest age. `at_least` is True if the age of any partition is a lower bound."""
        ages = [p.age for p in self.partitions.values() if p.age is not None]
        return RecordAge(max(a.ms for a in ages), any(a.at_least for a in ages)) if ages else None

    @property
    def status(self) -> LagStatus:
        return lag.worst_status(p.status for p in self.partitions.values())


class ShareGroupLags:
    def __init__(self, is_full_of: IsFullOf) -> None:
        self._is_full_of = is_full_of
        self.groups: dict[str, ShareGroupLag] = {}
        self._tracks: dict[str, dict[Key, lag.Track]] = {}
        self._unstored: dict[tuple[str, Key], None] = {}
        """Tracks that changed since they were stored, oldest first."""
        self._stored_ms = -STORE_MS
        self._in_rows: set[str] | None = None

    # -- memory --------------------------------------------------------------------------------------------------------
    def apply(
        self,
        groups: Iterable[DescribedShareGroup],
        facts: Callable[[Key], PartitionFacts | None],
        age_of: AgeOf,
        stable_of: StableOf,
        reads_committed: Callable[[str], bool],
        thresholds: AlertThresholds,
        now_ms: int,
    ) -> set[str]:
        """Apply the groups of one round. `reads_committed`: whether a group waits for the end of transactions. Returns the groups that changed."""
        changed = set()
        for group in groups:
            limits = thresholds.lag_limits_of(group.group_id)
            stable = stable_of if reads_committed(group.group_id) else None
            found = self._group(group, facts, age_of, stable, limits, now_ms)
            if self.groups.get(group.group_id) != found:
                self.groups[group.group_id] = found
                changed.add(group.group_id)
        return changed

    def forget(self, gone: Iterable[str]) -> None:
        for name in gone:
            self.groups.pop(name, None)
            self._tracks.pop(name, None)

    def stalled_partitions(self) -> list[Key]:
        """The partitions where a group has waited for long or is blocked: their last stable offsets are needed."""
        found: dict[Key, None] = {}
        for group_id, tracks in self._tracks.items():
            group = self.groups.get(group_id)
            found |= dict.fromkeys(long_waits(tracks, group.partitions if group is not None else None))
        return list(found)

    def starts(self) -> dict[Key, int]:
        """The lowest start offset of each partition with a lag: its log ends are needed from there on."""
        found: dict[Key, int] = {}
        for group in self.groups.values():
            for key, p in group.partitions.items():
                if p.start is not None and p.records:
                    found[key] = min(found.get(key, p.start), p.start)
        return found

    def _group(
        self,
        group: DescribedShareGroup,
        facts: Callable[[Key], PartitionFacts | None],
        age_of: AgeOf,
        stable_of: StableOf | None,
        limits: lag.LagLimits,
        now_ms: int,
    ) -> ShareGroupLag:
        tracks = self._tracks.setdefault(group.group_id, {})
        known = {(x.topic, x.index) for x in group.offsets if x.start is not None}
        for key in [k for k in tracks if k not in known]:
            del tracks[key]
        members = Counter(key for x in group.members for key in x.partitions)
        topics = {topic for x in group.members for topic in x.topics}
        observed: dict[Key, tuple[SharePartitionOffset, PartitionFacts]] = {}
        lags: dict[Key, SharePartitionLag] = {}
        for offsets in group.offsets:
            key = (offsets.topic, offsets.index)
            lags[key] = SharePartitionLag(offsets.start, offsets.lag, None, LagStatus.UNKNOWN, members[key])
            if offsets.start is None or (found := facts(key)) is None:
                continue
            observed[key] = offsets, found
            track = tracks.setdefault(key, lag.Track())
            track.limits = limits
            track.note_members(bool(group.members), now_ms)
            track.add(lag.LagSample(now_ms, _position(offsets, found), found.end), None)
        progress_ms = max((t.moved_ms for t in tracks.values() if t.moved_ms is not None), default=None)
        for key, (offsets, found) in observed.items():
            track = tracks[key]
            position = _position(offsets, found)
            block = block_of(found, position, None if stable_of is None else stable_of(key, found))
            if block is not Block.NONE:
                track.block(now_ms)
            age = age_of(key, position, now_ms)
            track.follow_trend(age, now_ms)
            subscribed = not topics or offsets.topic in topics
            status = track.status(now_ms, subscribed=subscribed, block=block, elsewhere_ms=progress_ms)
            shown = block if status is LagStatus.BLOCKED else Block.NONE
            is_full = self._is_full_of(group.group_id, key, found.leader)
            lags[key] = SharePartitionLag(offsets.start, offsets.lag, age, status, members[key], shown, is_full)
            self._unstored[group.group_id, key] = None
        return ShareGroupLag(lags)

    # -- rows ----------------------------------------------------------------------------------------------------------
    def restore(self) -> None:
        """Load the state from the rows. Raises DatabaseError."""
        rows = ShareGroupPartition.objects.exclude(track={}).values_list("group_id", "topic", "index", "track")
        for group_id, topic, index, stored in rows.iterator():
            self._tracks.setdefault(group_id, {})[topic, index] = track_from_json(stored)

    def write(self, changed: Iterable[str], gone: Iterable[str], now: datetime, *, settled: bool) -> None:
        """`settled`: a group that is not in memory no longer exists. Idempotent. Raises DatabaseError."""
        if self._in_rows is None:
            self._in_rows = set(ShareGroupPartition.objects.order_by().values_list("group_id", flat=True).distinct())
        stale = {n for n in self._in_rows if n not in self.groups and (settled or n in gone)}
        if stale:
            ShareGroupPartition.objects.filter(group_id__in=stale).delete()
            self._in_rows -= stale
        names = [n for n in changed if n in self.groups]
        if not names:
            return
        kept = ("id", "group_id", "topic", "index", "track")
        ShareGroupPartition.objects.bulk_create(
            [_row(n, key, p, now) for n in names for key, p in self.groups[n].partitions.items()],
            batch_size=BATCH,
            update_conflicts=True,
            unique_fields=["group_id", "topic", "index"],
            update_fields=[f.attname for f in ShareGroupPartition._meta.concrete_fields if f.attname not in kept],
        )
        self._in_rows |= set(names)
        rows = ShareGroupPartition.objects.filter(group_id__in=names).values_list("pk", "group_id", "topic", "index")
        lost = [pk for pk, n, topic, index in rows if (topic, index) not in self.groups[n].partitions]
        if lost:
            ShareGroupPartition.objects.filter(pk__in=lost).delete()

    def store(self, now_ms: int) -> None:
        """Write the tracks, which a restart needs, at most STORE_ROWS_MAX."""
        if now_ms - self._stored_ms < STORE_MS:
            return
        self._stored_ms = now_ms
        chosen = list(self._unstored)[:STORE_ROWS_MAX]
        known = [(n, key, track) for n, key in chosen if (track := self._tracks.get(n, {}).get(key)) is not None]
        update_many(
            ShareGroupPartition,
            ["track"],
            [(track_to_json(track), n, *key) for n, key, track in known],
            where=["group_id", "topic", "index"],
        )
        for entry in chosen:
            del self._unstored[entry]


def _position(x: SharePartitionOffset, facts: PartitionFacts) -> int:
    """The offset of the first record whose delivery has not ended. Retention may have deleted the record at the start offset, and the leader, which has counted
    no such record, may have read its log end earlier than the monitor."""
    assert x.start is not None
    return facts.end if x.lag == 0 else max(x.start, facts.start)


def _row(group_id: str, key: Key, partition_lag: SharePartitionLag, now: datetime) -> ShareGroupPartition:
    return ShareGroupPartition(
        group_id=group_id,
        topic=key[0],
        index=key[1],
        start_offset=partition_lag.start,
        lag_records=partition_lag.records,
        lag_ms=None if partition_lag.age is None else partition_lag.age.ms,
        lag_at_least=partition_lag.age is not None and partition_lag.age.at_least,
        status=partition_lag.status.value,
        block=partition_lag.block.value,
        is_full=partition_lag.is_full,
        member_count=partition_lag.member_count,
        observed_at=now,
    )
