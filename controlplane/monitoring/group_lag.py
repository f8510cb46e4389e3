"""Consumer groups as described by their coordinators, with lag, status and forecast per partition, in memory and as rows.

Invariants: None = not observed. A restart continues from the rows. Does not contain: requests to brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Protocol
from uuid import UUID

from brokerd.cluster.configs import TopicConfig
from controlplane.clients.broker_samples import BrokerSample
from controlplane.clients.group_samples import DescribedGroupState, DescribedMember, GroupSample, Key
from controlplane.db.bulk import update_many
from controlplane.domain import lag
from controlplane.domain.alert_thresholds import AlertThresholds
from controlplane.domain.lag import Block, LagStatus
from controlplane.domain.lag_json import track_from_json, track_to_json
from controlplane.domain.log_ends import LogEndHistory, RecordAge
from controlplane.domain.retention import LogFacts, forecast
from controlplane.models import ConsumerGroup, GroupPartition, LogEnds
from controlplane.monitoring.group_metrics import GroupMetrics, PartitionLag, group_row, owners_of, partition_rows
from controlplane.monitoring.projection import BATCH, MetadataProjection, PartitionId

GROUP_GONE_MS = 5_000
"""Milliseconds for which a group must be missing from every live broker's response before its row is deleted. Its coordinator may just be moving."""

STORE_MS = 10_000
"""Milliseconds between writes of the data that a restart needs."""

STORE_ROWS_MAX = 500
"""Maximum number of rows per write: a cluster with more lagging partitions writes them one after the other."""

STALLED_MS = 10_000
"""The last stable offset is requested for a partition without a commit for this time."""

STALLED_MAX = 1_000
"""Maximum number of partitions in one request for last stable offsets, per broker."""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """Observed facts of a partition that groups read. `config` None: the topic is not in the metadata log."""

    start: int
    end: int
    size_bytes: int | None
    leader: int | None
    under_min_isr: bool
    config: TopicConfig | None


class GroupLags:
    def __init__(self) -> None:
        self.groups: dict[str, GroupMetrics] = {}
        self._ends: dict[Key, LogEndHistory] = {}
        self._tracks: dict[str, dict[Key, lag.Track]] = {}
        self._stable: dict[int, Mapping[Key, int]] = {}
        """Last stable offsets, by reporting broker."""
        self._totals: dict[str, tuple[frozenset[Key], lag.Track]] = {}
        """Each group's sums over the partitions that it reads. A client that drains one partition after the other has a steady rate only
        in the sum."""
        self._seen_ms: dict[str, int] = {}
        self._in_rows: set[str] | None = None
        self._unstored: dict[tuple[str, Key], None] = {}
        """Tracks that changed since they were stored, oldest first."""
        self._stored_ms = -STORE_MS
        self._limits = lag.DEFAULT_LIMITS
        self._own_limits: dict[str, lag.LagLimits] = {}
        """Limits of the groups with separate thresholds."""

    def use_thresholds(self, thresholds: AlertThresholds) -> None:
        """Apply changed limits to all groups. They take effect with the next sample."""
        own = {name: thresholds.lag_limits_of(name) for name in thresholds.groups_with_lag_limits}
        if (thresholds.lag_limits, own) != (self._limits, self._own_limits):
            self._limits, self._own_limits = thresholds.lag_limits, own
            self._apply_limits()

    def _limits_of(self, group_id: str) -> lag.LagLimits:
        return self._own_limits.get(group_id, self._limits)

    def _apply_limits(self) -> None:
        for group_id, tracks in self._tracks.items():
            for track in tracks.values():
                track.limits = self._limits_of(group_id)
        for group_id, (_, total) in self._totals.items():
            total.limits = self._limits_of(group_id)

    # -- memory --------------------------------------------------------------------------------------------------------
    def end_observed(self, key: Key, at_ms: int, end: int) -> None:
        self._ends.setdefault(key, LogEndHistory()).add(at_ms, end)

    def stable_observed(self, broker_id: int, stable: Mapping[Key, int]) -> None:
        self._stable[broker_id] = stable

    def last_stable(self, key: Key, facts: PartitionFacts) -> int | None:
        """The last stable offset that the leader reported. None: it was not requested, because no group has waited for long."""
        return None if facts.leader is None else self._stable.get(facts.leader, {}).get(key)

    def age(self, key: Key, offset: int, now_ms: int) -> RecordAge | None:
        """Age of the record at `offset`. None: the log end was not observed."""
        return self._ends[key].age(offset, now_ms) if key in self._ends else None

    def forget_partitions(self, living: Iterable[Key]) -> None:
        kept = set(living)
        for key in [k for k in self._ends if k not in kept]:
            del self._ends[key]

    def apply(self, sample: BrokerSample, facts: Callable[[Key], PartitionFacts | None], now_ms: int) -> Iterable[str]:
        """Apply the groups that one broker coordinates. Yields the changed ones."""
        for group in sample.groups:
            metrics = self._metrics(group, sample, facts, now_ms)
            before = self.groups.get(group.group_id)
            self.groups[group.group_id] = metrics
            self._seen_ms[group.group_id] = now_ms
            if before is None or (before.sample, before.coordinator, before.lags, before.status) != (
                group,
                metrics.coordinator,
                metrics.lags,
                metrics.status,
            ):
                yield group.group_id

    def _metrics(
        self,
        group: GroupSample,
        sample: BrokerSample,
        facts: Callable[[Key], PartitionFacts | None],
        now_ms: int,
    ) -> GroupMetrics:
        metrics = GroupMetrics(group, sample.broker_id, sample.at_ms)
        owners = owners_of(group)
        read_topics = {topic for topic, _ in owners}
        tracks = self._tracks.setdefault(group.group_id, {})
        keys = sorted(set(owners) | set(group.committed))
        for key in [k for k in tracks if k not in group.committed]:
            del tracks[key]
        observed: dict[Key, PartitionFacts] = {}
        for key in keys:
            found, committed = facts(key), group.committed.get(key)
            if found is None or committed is None:
                metrics.lags[key] = _without_commit(found)
                metrics.unknown += metrics.lags[key].records is None
                continue
            observed[key] = found
            track = tracks.setdefault(key, lag.Track(limits=self._limits_of(group.group_id)))
            track.note_members(bool(group.members), now_ms)
            track.add(lag.LagSample(sample.at_ms, committed, found.end), found.start)
        progress = _progress(tracks, owners)
        # Members of other protocol types do not report their topics, so every topic counts as read.
        every = not read_topics or group.state != DescribedGroupState.STABLE
        total = self._total(group.group_id, {k: tracks[k] for k in observed if every or k[0] in read_topics}, now_ms)
        speeds = total.speeds(now_ms)
        for key, found in observed.items():
            metrics.lags[key] = self._partition_lag(
                tracks[key],
                key,
                found,
                every or key[0] in read_topics,
                progress.get(_owner(owners, key)),
                total,
                now_ms,
            )
            self._unstored[group.group_id, key] = None
        _sum_up(metrics)
        if metrics.status in (LagStatus.HEALTHY, LagStatus.CATCHING_UP) and total.trend_status is not LagStatus.HEALTHY:
            metrics.status = total.trend_status
        if speeds is not None and metrics.consumed_per_s is not None:
            metrics.consumed_per_s, metrics.produced_per_s = speeds
        return metrics

    def _total(self, group_id: str, read: Mapping[Key, lag.Track], now_ms: int) -> lag.Track:
        """The group's partitions as one track, which restarts when the set of partitions changes."""
        keys, total = self._totals.get(group_id, (frozenset(), lag.Track(limits=self._limits_of(group_id))))
        if keys != frozenset(read):
            total = lag.Track(limits=self._limits_of(group_id))
        self._totals[group_id] = (frozenset(read), total)
        samples = [t.newest for t in read.values() if t.newest is not None]
        if not samples:
            return total
        total.add(lag.LagSample(samples[0].at_ms, sum(s.committed for s in samples), sum(s.end for s in samples)), None)
        unread, weighted, at_least = 0, 0, False
        for key, track in read.items():
            newest = track.newest
            age = self._ends[key].age(newest.committed, now_ms) if newest is not None and key in self._ends else None
            if newest is not None and age is not None:
                records = max(0, newest.end - newest.committed)
                unread, weighted = unread + records, weighted + records * age.ms
                at_least = at_least or age.at_least
        total.follow_trend(RecordAge(weighted // unread if unread else 0, at_least), now_ms)
        return total

    def _partition_lag(
        self,
        track: lag.Track,
        key: Key,
        partition_facts: PartitionFacts,
        subscribed: bool,
        elsewhere_ms: int | None,
        total: lag.Track,
        now_ms: int,
    ) -> PartitionLag:
        assert track.newest is not None
        committed = track.newest.committed
        records = lag.lag_records(committed, partition_facts.end)
        age = self._ends[key].age(committed, now_ms) if key in self._ends else None
        block = block_of(partition_facts, committed, self.last_stable(key, partition_facts))
        if block is not Block.NONE:
            track.block(now_ms)
        track.follow_trend(age, now_ms)
        track.follow_group(total.trend_status, age)
        status = track.status(now_ms, subscribed=subscribed, block=block, elsewhere_ms=elsewhere_ms)
        speeds = track.speeds(now_ms) or self._share(key, total, now_ms)
        if status in (LagStatus.STALLED, LagStatus.STOPPED):
            produced = self._ends[key].rate(now_ms, lag.RECENT_MS) if key in self._ends else None
            speeds = None if produced is None else (0.0, produced)
        expected = None
        if status in lag.LOSING and speeds is not None and partition_facts.config is not None:
            log = LogFacts(partition_facts.start, partition_facts.end, partition_facts.size_bytes)
            expected = forecast(partition_facts.config, log, committed, age, *speeds)
        consumed, produced_ = speeds if speeds is not None else (None, None)
        return PartitionLag(
            partition_facts.end,
            records,
            age,
            status,
            block if status is LagStatus.BLOCKED else Block.NONE,
            consumed,
            produced_,
            expected,
            track.lost_records if status is LagStatus.DATA_LOST else 0,
        )

    def _share(self, key: Key, total: lag.Track, now_ms: int) -> tuple[float, float] | None:
        """Rates of a partition whose own rates are unknown: its produce rate, and this rate times the group's ratio of consumed to produced records."""
        speeds = total.speeds(now_ms)
        produced = self._ends[key].rate(now_ms, lag.RECENT_MS) if key in self._ends else None
        if speeds is None or produced is None or speeds[1] <= 0:
            return None
        return produced * speeds[0] / speeds[1], produced

    def stalled_partitions(self, leads: Mapping[str, Iterable[int]], more: Iterable[Key] = ()) -> list[Key]:
        """The partitions of `leads` where a group has waited for long, and those of `more`: the last stable offset shows whether the group is blocked."""
        out = dict.fromkeys(more)
        for name, tracks in self._tracks.items():
            metrics = self.groups.get(name)
            out |= dict.fromkeys(long_waits(tracks, metrics.lags if metrics is not None else None))
        led = {(topic, i) for topic, indexes in leads.items() for i in indexes}
        return [k for k in out if k in led][:STALLED_MAX]

    def forget_groups(self, now_ms: int) -> set[str]:
        """Remove and return the groups that no broker has described for GROUP_GONE_MS."""
        gone = {n for n in self.groups if now_ms - self._seen_ms[n] > GROUP_GONE_MS}
        for name in gone:
            del self.groups[name], self._seen_ms[name]
            self._tracks.pop(name, None)
            self._totals.pop(name, None)
        return gone

    # -- rows ----------------------------------------------------------------------------------------------------------
    def restore(self) -> None:
        """Load the state from the rows. Raises DatabaseError."""
        rows = GroupPartition.objects.exclude(track={}).values_list("group_id", "topic", "index", "track")
        for group_id, topic, index, stored in rows.iterator():
            self._tracks.setdefault(group_id, {})[topic, index] = track_from_json(stored)
        for group_id, stored in ConsumerGroup.objects.exclude(track={}).values_list("pk", "track").iterator():
            read = frozenset((topic, index) for topic, index in stored["partitions"])
            self._totals[group_id] = (read, track_from_json(stored))
        for topic, index, points in LogEnds.objects.values_list(
            "partition__topic__name", "partition__index", "observed"
        ).iterator():
            self._ends[topic, index] = LogEndHistory.from_stored(points)
        self._apply_limits()

    def write(self, changed: set[str], gone: set[str], now: datetime, *, settled: bool) -> None:
        if self._in_rows is None:
            self._in_rows = set(ConsumerGroup.objects.values_list("group_id", flat=True))
            # Groups of an earlier process: existing ones are observed within a round or two.
            for name in self._in_rows - set(self.groups):
                self._seen_ms.setdefault(name, 0)
        stale = {n for n in self._in_rows if n not in self.groups and n in gone}
        if self.groups or gone:
            stale |= {n for n in self._in_rows - set(self.groups) if self._seen_ms.get(n) == 0 and settled}
        if stale:
            ConsumerGroup.objects.filter(group_id__in=stale).delete()
            self._in_rows -= stale
        names = [n for n in changed if n in self.groups]
        if names:
            self._write_groups(names, now)

    def _write_groups(self, names: list[str], now: datetime) -> None:
        assert self._in_rows is not None
        rows = [group_row(self.groups[n], now) for n in names]
        columns = [f.attname for f in ConsumerGroup._meta.concrete_fields if not f.primary_key and f.name != "track"]
        ConsumerGroup.objects.bulk_create(
            rows, batch_size=BATCH, update_conflicts=True, unique_fields=["group_id"], update_fields=columns
        )
        self._in_rows |= set(names)
        parts = [row for n in names for row in partition_rows(self.groups[n], now)]
        skipped = ("id", "group_id", "topic", "index", "track")
        GroupPartition.objects.bulk_create(
            parts,
            batch_size=BATCH,
            update_conflicts=True,
            unique_fields=["group", "topic", "index"],
            update_fields=[f.attname for f in GroupPartition._meta.concrete_fields if f.attname not in skipped],
        )
        for n in names:
            kept = set(self.groups[n].lags)
            for pk, topic, index in GroupPartition.objects.filter(group_id=n).values_list("pk", "topic", "index"):
                if (topic, index) not in kept:
                    GroupPartition.objects.filter(pk=pk).delete()

    def store(self, pks: Callable[[Key], int | None], now_ms: int, starts: Mapping[Key, int]) -> None:
        """Write the data that a restart needs: tracks, and log ends from the oldest unread record on. At most STORE_ROWS_MAX of each. `starts`: the same
        offsets of share groups."""
        if now_ms - self._stored_ms < STORE_MS:
            return
        self._stored_ms = now_ms
        chosen = [(n, k) for n, k in list(self._unstored)[:STORE_ROWS_MAX]]
        known = [(n, k) for n, k in chosen if k in self._tracks.get(n, {}) and n in self.groups]
        update_many(
            GroupPartition,
            ["track"],
            [(track_to_json(self._tracks[n][k]), n, *k) for n, k in known],
            where=["group_id", "topic", "index"],
        )
        update_many(
            ConsumerGroup,
            ["track"],
            [
                ({**track_to_json(self._totals[n][1]), "partitions": sorted(self._totals[n][0])}, n)
                for n in dict.fromkeys(n for n, _ in known)
                if n in self._totals
            ],
            where=["group_id"],
        )
        oldest: dict[Key, int] = dict(islice(starts.items(), STORE_ROWS_MAX))
        for n, k in known:
            newest = self._tracks[n][k].newest
            if newest is not None:
                oldest[k] = min(oldest.get(k, newest.committed), newest.committed)
        rows = [
            LogEnds(partition_id=pk, observed=self._ends[k].to_stored(offset))
            for k, offset in oldest.items()
            if k in self._ends and (pk := pks(k)) is not None
        ]
        LogEnds.objects.bulk_create(
            rows, batch_size=BATCH, update_conflicts=True, unique_fields=["partition"], update_fields=["observed"]
        )
        for entry in chosen:
            del self._unstored[entry]


def _owner(owners: Mapping[Key, DescribedMember], key: Key) -> str:
    return owners[key].member_id if key in owners else ""


def _progress(tracks: Mapping[Key, lag.Track], owners: Mapping[Key, DescribedMember]) -> dict[str, int]:
    """Time at which each member last committed a new offset. The key "" is any member, for partitions with an unknown reader."""
    out: dict[str, int] = {}
    for key, track in tracks.items():
        if track.moved_ms is not None:
            for member in {_owner(owners, key), ""}:
                out[member] = max(out.get(member, 0), track.moved_ms)
    return out


class WithBlock(Protocol):
    @property
    def block(self) -> Block: ...


def long_waits(tracks: Mapping[Key, lag.Track], lags: Mapping[Key, WithBlock] | None) -> Iterator[Key]:
    """The partitions of a group where the consumer has waited for long before the newest sample, or is blocked."""
    for key, track in tracks.items():
        at, waiting_ms, known = track.newest, track.waiting_ms, lags.get(key) if lags is not None else None
        waits = at is not None and waiting_ms is not None and at.at_ms - waiting_ms >= STALLED_MS
        if waits or (known is not None and known.block is not Block.NONE):
            yield key


def block_of(partition_facts: PartitionFacts, committed: int, stable: int | None) -> Block:
    """The reason why no consumer can read further from `committed`. `stable`: the last stable offset, None if it is unknown or does not limit the consumer."""
    if partition_facts.leader is None:
        return Block.NO_LEADER
    if stable is not None and stable <= committed < partition_facts.end:
        # Transaction markers are written with acks=all: below min.insync.replicas no transaction ends.
        return Block.UNDER_MIN_ISR if partition_facts.under_min_isr else Block.OPEN_TRANSACTION
    return Block.NONE


def _without_commit(facts: PartitionFacts | None) -> PartitionLag:
    """An assigned partition without a committed offset. A log without records, for example of a partition that was just added, has nothing to read."""
    if facts is None:
        return PartitionLag()
    if facts.end == facts.start:
        return PartitionLag(facts.end, 0, status=LagStatus.HEALTHY)
    return PartitionLag(facts.end)


def _sum_up(metrics: GroupMetrics) -> None:
    lags = metrics.lags.values()
    known = [p.records for p in lags if p.records is not None]
    ages = [p.age for p in lags if p.age is not None]
    consumed = [p.consumed_per_s for p in lags if p.consumed_per_s is not None]
    produced = [p.produced_per_s for p in lags if p.produced_per_s is not None]
    metrics.lag_records = sum(known) if known else None
    metrics.lag_ms_max = max((a.ms for a in ages), default=None)
    metrics.lag_at_least = any(a.at_least for a in ages)
    metrics.consumed_per_s = sum(consumed) if consumed else None
    metrics.produced_per_s = sum(produced) if produced else None
    metrics.lost_records = sum(p.lost_records for p in lags)
    metrics.status = lag.worst_status(p.status for p in lags)
    expected = [(p.forecast.in_s, key) for key, p in metrics.lags.items() if p.forecast is not None]
    metrics.first_lost = min(expected)[1] if expected else None


def partition_pk(projection: MetadataProjection, ids: Mapping[str, UUID], key: Key) -> int | None:
    """The row of a partition, None before its projection."""
    if key[0] not in ids:
        return None
    spot: PartitionId = (ids[key[0]], key[1])
    return projection.partition_ids.get(spot)
