"""What brokers answered, kept in memory and as rows: offsets, sizes, groups and their lag. Law: a broker that did not answer leaves the old
figures with their age, never zeros. Called by the observer, in its thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.utils import timezone

from brokerd.cluster.image import Image
from controlplane import lag
from controlplane.bulk import update_many
from controlplane.kafka import BrokerSample, GroupSample, Key
from controlplane.mirror import BATCH, Mirror
from controlplane.models import Broker, ConsumerGroup, GroupPartition, ObservedTopic, Partition, Replica

RATE_WINDOW_MS = 10_000
"""Milliseconds over which records per second are averaged."""

GROUP_GONE_MS = 5_000
"""Milliseconds a group must be missing from every living broker's answer before its row goes: coordinators move."""


@dataclass(slots=True)
class TopicFigures:
    size_bytes: int | None = None
    records: int | None = None
    records_per_s: float | None = None


@dataclass(slots=True)
class GroupFigures:
    sample: GroupSample
    coordinator: int
    at_ms: int
    lags: dict[Key, tuple[int | None, int | None, str]] = field(default_factory=dict)
    """(records, milliseconds, verdict) by partition; what is assigned but was never committed has none."""
    lag_records: int | None = None
    lag_ms_max: int | None = None
    unknown: int = 0
    verdict: str = lag.UNKNOWN


@dataclass(slots=True)
class Changed:
    """What the last `take` changed, for rows and the live feed."""

    offsets: set[Key] = field(default_factory=set)
    sizes: set[Key] = field(default_factory=set)
    lagging: set[Key] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    groups_gone: set[str] = field(default_factory=set)


class Book:
    """The latest figures. `take` is pure memory, `write` makes them rows."""

    def __init__(self) -> None:
        self.offsets: dict[Key, tuple[int, int]] = {}
        self.sizes: dict[Key, dict[int, tuple[int, int | None]]] = {}
        self.lagging: dict[Key, Mapping[int, tuple[int, int]]] = {}
        """Of partitions with copies out of sync: what the leader counts of them."""
        self.topics: dict[str, TopicFigures] = {}
        self.groups: dict[str, GroupFigures] = {}
        self.answered: dict[int, bool] = {}
        self.space: dict[int, tuple[int, int]] = {}
        self.held: dict[int, int] = {}
        """Replicas that a broker itself says lie in its directories."""
        self.held_in_rows: dict[int, int] = {}
        """The same as the rows have it: a page that is read again because of it must find it there."""
        self.failed: dict[int, tuple[str, ...]] = {}
        """Its directories that failed."""
        self._ends: dict[Key, lag.Ends] = {}
        self._places: dict[tuple[str, Key], lag.Place] = {}
        self._totals: dict[str, deque[tuple[int, int]]] = {}
        self._group_seen_ms: dict[str, int] = {}
        self._groups_in_rows: set[str] | None = None

    # -- memory --------------------------------------------------------------------------------------------------------
    def take(self, samples: list[BrokerSample], failed: Mapping[int, str], image: Image, now_ms: int) -> Changed:
        """Fold one round of answers in. `failed` names the brokers that did not answer."""
        changed = Changed()
        leaders = {(t.name, i): s.leader for t, i, s in image.each_partition()}
        for broker_id in failed:
            self.answered[broker_id] = False
        for sample in samples:
            self.answered[sample.broker_id] = True
            for key, value in sample.offsets.items():
                if leaders.get(key) != sample.broker_id:
                    continue
                if self.offsets.get(key) != value:
                    self.offsets[key] = value
                    changed.offsets.add(key)
                self._ends.setdefault(key, lag.Ends()).add(sample.at_ms, value[1])
            if sample.space is not None:
                self.space[sample.broker_id] = sample.space
            if sample.replicas is not None:
                self.held[sample.broker_id], self.failed[sample.broker_id] = len(sample.replicas), sample.failed
                self._take_sizes(sample, changed)
                self._take_lagging(sample, leaders, changed)
        self._forget_gone(leaders, changed)
        self._take_topics(leaders, changed, now_ms)
        for sample in samples:
            for group in sample.groups:
                self._take_group(group, sample, changed, now_ms)
        if not failed and samples:
            self._forget_groups(changed, now_ms)
        return changed

    def _take_sizes(self, sample: BrokerSample, changed: Changed) -> None:
        assert sample.replicas is not None
        for key, value in sample.replicas.items():
            if self.sizes.setdefault(key, {}).get(sample.broker_id) != value:
                self.sizes[key][sample.broker_id] = value
                changed.sizes.add(key)
        for key, by_broker in self.sizes.items():
            if sample.broker_id in by_broker and key not in sample.replicas:
                del by_broker[sample.broker_id]
                changed.sizes.add(key)

    def _take_lagging(self, sample: BrokerSample, leaders: Mapping[Key, int], changed: Changed) -> None:
        for key in {*sample.lagging, *self.lagging}:
            if leaders.get(key) != sample.broker_id or self.lagging.get(key, {}) == sample.lagging.get(key, {}):
                continue
            self.lagging[key] = sample.lagging.get(key, {})
            if not self.lagging[key]:
                del self.lagging[key]
            changed.lagging.add(key)

    def _forget_gone(self, leaders: Mapping[Key, int], changed: Changed) -> None:
        for key in [k for k in self.offsets if k not in leaders]:
            del self.offsets[key]
            self._ends.pop(key, None)
        for key in [k for k in self.sizes if k not in leaders]:
            del self.sizes[key]
            changed.sizes.discard(key)
        for key in [k for k in self.lagging if k not in leaders]:
            del self.lagging[key]
            changed.lagging.discard(key)
        names = {name for name, _ in leaders}
        for name in [n for n in self.topics if n not in names]:
            del self.topics[name]
            self._totals.pop(name, None)

    def _take_topics(self, leaders: Mapping[Key, int], changed: Changed, now_ms: int) -> None:
        records: dict[str, int] = {}
        ends: dict[str, int] = {}
        sizes: dict[str, int] = {}
        unknown: set[str] = set()
        for key, leader in leaders.items():
            name = key[0]
            if (offsets := self.offsets.get(key)) is None:
                unknown.add(name)
            else:
                records[name] = records.get(name, 0) + offsets[1] - offsets[0]
                ends[name] = ends.get(name, 0) + offsets[1]
            if (size := self.sizes.get(key, {}).get(leader)) is not None:
                sizes[name] = sizes.get(name, 0) + size[0]
        for name in {n for n, _ in leaders}:
            figures = TopicFigures(sizes.get(name), None if name in unknown else records.get(name), None)
            if name not in unknown:
                figures.records_per_s = self._rate(name, ends[name], now_ms)
            if self.topics.get(name) != figures:
                self.topics[name] = figures
                changed.topics.add(name)

    def _rate(self, name: str, total: int, now_ms: int) -> float | None:
        totals = self._totals.setdefault(name, deque())
        if totals and total < totals[-1][1]:
            totals.clear()
        totals.append((now_ms, total))
        while len(totals) > 2 and totals[1][0] <= now_ms - RATE_WINDOW_MS:
            totals.popleft()
        span = now_ms - totals[0][0]
        return None if span < 500 else round((total - totals[0][1]) * 1000 / span, 1)

    def _take_group(self, group: GroupSample, sample: BrokerSample, changed: Changed, now_ms: int) -> None:
        figures = GroupFigures(group, sample.broker_id, sample.at_ms)
        assigned = {key for member in group.members for key in member.partitions}
        for key in sorted(assigned | set(group.committed)):
            committed = group.committed.get(key)
            offsets = self.offsets.get(key)
            records = lag.lag_records(committed, offsets[1] if offsets else None)
            if committed is None or offsets is None or records is None:
                figures.lags[key] = (None, None, lag.UNKNOWN)
                figures.unknown += 1
                continue
            place = self._places.setdefault((group.group_id, key), lag.Place())
            place.add(lag.Sample(sample.at_ms, committed, offsets[1]), offsets[0])
            behind = self._ends[key].behind_ms(committed, now_ms) if key in self._ends else None
            figures.lags[key] = (records, behind, place.verdict(bool(group.members), now_ms))
        known = [r for r, _, _ in figures.lags.values() if r is not None]
        times = [t for _, t, _ in figures.lags.values() if t is not None]
        figures.lag_records = sum(known) if known else None
        figures.lag_ms_max = max(times) if times else None
        figures.verdict = lag.worst(v for _, _, v in figures.lags.values())
        before = self.groups.get(group.group_id)
        if before is None or (before.sample, before.coordinator, before.lags, before.verdict) != (
            group, figures.coordinator, figures.lags, figures.verdict,
        ):  # fmt: skip
            changed.groups.add(group.group_id)
        self.groups[group.group_id] = figures
        self._group_seen_ms[group.group_id] = now_ms

    def _forget_groups(self, changed: Changed, now_ms: int) -> None:
        for name in [n for n in self.groups if now_ms - self._group_seen_ms[n] > GROUP_GONE_MS]:
            del self.groups[name], self._group_seen_ms[name]
            for place in [p for p in self._places if p[0] == name]:
                del self._places[place]
            changed.groups_gone.add(name)

    # -- rows ----------------------------------------------------------------------------------------------------------
    def write(self, changed: Changed, mirror: Mirror, image: Image) -> None:
        """Make rows of what changed. Raises DatabaseError; calling it again with the same `changed` is harmless."""
        now = timezone.now()
        ids = {t.name: t.topic_id for t in image.topics.values()}
        pks = {
            key: mirror.partition_ids[ids[key[0]], key[1]]
            for key in changed.offsets | changed.sizes | changed.lagging
            if key[0] in ids and (ids[key[0]], key[1]) in mirror.partition_ids
        }
        leaders = {(t.name, i): s.leader for t, i, s in image.each_partition()}
        with transaction.atomic():
            update_many(
                Partition,
                ["start_offset", "end_offset", "sampled_at"],
                [(*self.offsets[k], now, pks[k]) for k in changed.offsets if k in pks and k in self.offsets],
            )
            update_many(
                Partition,
                ["lagging"],
                [
                    ({str(b): told for b, told in self.lagging.get(k, {}).items()}, pks[k])
                    for k in changed.lagging
                    if k in pks
                ],
            )
            self._write_sizes(changed, pks, leaders, now)
            self._write_topics(changed, ids)
            self._write_brokers(now)
            self._write_groups(changed, now)
        self.held_in_rows = dict(self.held)

    def _write_sizes(self, changed: Changed, pks: Mapping[Key, int], leaders: Mapping[Key, int], now: Any) -> None:
        whole: list[tuple[Any, ...]] = []
        copies: list[tuple[Any, ...]] = []
        for key in changed.sizes:
            if key not in pks:
                continue
            by_broker = self.sizes.get(key, {})
            if (leader := by_broker.get(leaders.get(key, -1))) is not None:
                whole.append((leader[0], pks[key]))
            end = self.offsets.get(key, (None, None))[1]
            for broker_id, (size, behind) in by_broker.items():
                copies.append(
                    (size, behind, None if end is None or behind is None else end - behind, now, pks[key], broker_id)
                )
        update_many(Partition, ["size_bytes"], whole)
        update_many(
            Replica,
            ["size_bytes", "lag_records", "end_offset", "sampled_at"],
            copies,
            where=["partition_id", "broker_id"],
        )

    def _write_topics(self, changed: Changed, ids: Mapping[str, Any]) -> None:
        for name in changed.topics:
            figures = self.topics.get(name)
            if figures is not None and name in ids:
                ObservedTopic.objects.filter(id=ids[name]).update(
                    size_bytes=figures.size_bytes, records=figures.records, records_per_s=figures.records_per_s
                )

    def _write_brokers(self, now: Any) -> None:
        totals: dict[int, int] = {}
        for by_broker in self.sizes.values():
            for broker_id, (size, _) in by_broker.items():
                totals[broker_id] = totals.get(broker_id, 0) + size
        for broker_id, answered in self.answered.items():
            values: dict[str, Any] = {"answered": answered}
            if answered:
                nothing = 0 if self.held.get(broker_id) == 0 else None
                values |= {"sampled_at": now, "size_bytes": totals.get(broker_id, nothing)}
                if broker_id in self.space:
                    values["total_bytes"], values["free_bytes"] = self.space[broker_id]
                if broker_id in self.held:
                    values |= {"held": self.held[broker_id], "dirs_failed": list(self.failed[broker_id])}
            Broker.objects.filter(broker_id=broker_id).update(**values)

    def _write_groups(self, changed: Changed, now: Any) -> None:
        if self._groups_in_rows is None:
            self._groups_in_rows = set(ConsumerGroup.objects.values_list("group_id", flat=True))
            # Groups of another time: those that live will be seen within a round or two.
            for name in self._groups_in_rows - set(self.groups):
                self._group_seen_ms.setdefault(name, 0)
        stale = {n for n in self._groups_in_rows if n not in self.groups and n in changed.groups_gone}
        if self.groups or changed.groups_gone:
            stale |= {
                n for n in self._groups_in_rows - set(self.groups) if self._group_seen_ms.get(n) == 0 and self.settled
            }
        if stale:
            ConsumerGroup.objects.filter(group_id__in=stale).delete()
            self._groups_in_rows -= stale
        names = [n for n in changed.groups if n in self.groups]
        if not names:
            return
        rows = [self._group_row(self.groups[n], now) for n in names]
        columns = [f.attname for f in ConsumerGroup._meta.concrete_fields if not f.primary_key]
        ConsumerGroup.objects.bulk_create(
            rows, batch_size=BATCH, update_conflicts=True, unique_fields=["group_id"], update_fields=columns
        )
        self._groups_in_rows |= set(names)
        parts = [row for n in names for row in self._part_rows(self.groups[n], now)]
        skipped = ("id", "group_id", "topic", "index")
        GroupPartition.objects.bulk_create(
            parts, batch_size=BATCH, update_conflicts=True, unique_fields=["group", "topic", "index"],
            update_fields=[f.attname for f in GroupPartition._meta.concrete_fields if f.attname not in skipped],
        )  # fmt: skip
        for n in names:
            kept = set(self.groups[n].lags)
            for pk, topic, index in GroupPartition.objects.filter(group_id=n).values_list("pk", "topic", "index"):
                if (topic, index) not in kept:
                    GroupPartition.objects.filter(pk=pk).delete()

    settled = False
    """True once every living broker has answered for a while: what is not in memory by then is gone."""

    @staticmethod
    def _group_row(g: GroupFigures, now: Any) -> ConsumerGroup:
        return ConsumerGroup(
            group_id=g.sample.group_id,
            state=g.sample.state,
            protocol_type=g.sample.protocol_type,
            assignor=g.sample.assignor,
            coordinator=g.coordinator,
            members=members(g.sample),
            member_count=len(g.sample.members),
            lag_records=g.lag_records,
            lag_ms_max=g.lag_ms_max,
            partitions_unknown=g.unknown,
            verdict=g.verdict,
            observed_at=now,
        )

    def _part_rows(self, g: GroupFigures, now: Any) -> list[GroupPartition]:
        owners = owners_of(g.sample)
        rows = []
        for key, (records, behind, verdict) in g.lags.items():
            member = owners.get(key)
            rows.append(
                GroupPartition(
                    group_id=g.sample.group_id,
                    topic=key[0],
                    index=key[1],
                    committed=g.sample.committed.get(key),
                    end_offset=self.offsets.get(key, (None, None))[1],
                    lag_records=records,
                    lag_ms=behind,
                    verdict=verdict,
                    member_id=member.member_id if member else "",
                    client_id=member.client_id if member else "",
                    host=member.host if member else "",
                    observed_at=now,
                )
            )
        return rows


def members(group: GroupSample) -> list[dict[str, Any]]:
    return [
        {
            "member_id": x.member_id,
            "client_id": x.client_id,
            "host": x.host,
            "partitions": [list(p) for p in x.partitions],
        }
        for x in group.members
    ]


def owners_of(group: GroupSample) -> dict[Key, Any]:
    return {key: member for member in group.members for key in member.partitions}
