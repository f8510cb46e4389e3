"""Where groups live: the partitions of __consumer_offsets that this broker leads.

Law: what a group wants persisted is replicated before the group is told so. When a partition is served is the question of `leading`.
Called by the doors and the broker's tick. Must not come in: sockets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, Now
from brokerd.coordinator import events, leading
from brokerd.coordinator import records as formats
from brokerd.coordinator.events import Offset, Reply, State, TopicIndex
from brokerd.coordinator.group import Group
from brokerd.coordinator.leading import (
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
    REFUSED_BEFORE_APPEND,
    CoordinatorLog,
    Leading,
)
from brokerd.wire.records import BatchHeader, Record, build, marker_of, records_of

log = logging.getLogger(__name__)

INVALID_GROUP_ID, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, OFFSET_METADATA_TOO_LARGE = 24, 68, 69, 12


@dataclass(slots=True)
class Led(leading.Led):
    groups: dict[str, Group] = field(default_factory=dict)
    touched: dict[int, set[str]] = field(default_factory=dict)
    """{producer id: groups with offsets of its transaction}."""

    def ended(self, producer_id: int, committed: bool) -> None:
        """A transaction's marker stands in the log."""
        for group_id in sorted(self.touched.pop(producer_id, ())):
            group = self.groups.get(group_id)
            if group is not None:
                group.commits.transaction_ended(producer_id, committed)


class Groups(Leading[Led]):
    def __init__(
        self,
        coordinator_log: CoordinatorLog,
        clock: Callable[[], Now],
        *,
        initial_delay_ms: int,
        size_max: int,
        retention_ms: int,
        metadata_bytes_max: int,
        draw: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        super().__init__(GROUP_OFFSETS_TOPIC, coordinator_log, clock, Led)
        self._draw = draw
        self._initial_delay_ms, self._size_max = initial_delay_ms, size_max
        self._retention_ms, self.metadata_bytes_max = retention_ms, metadata_bytes_max
        self._expired_ms = 0

    # -- time ------------------------------------------------------------------------------------------------------------
    def tick(self, now: Now) -> None:
        for partition, led in list(self.led.items()):
            if not led.loaded:
                self._load(partition, led, now)
                continue
            for group in list(led.groups.values()):
                deadline = group.deadline_ms()
                if deadline is not None and deadline <= now.mono_ms:
                    self._run(partition, led, group, group.handle(events.Tick(), now))
        if now.mono_ms - self._expired_ms > 60_000:
            self._expired_ms = now.mono_ms
            self._expire(now)

    # -- loading -----------------------------------------------------------------------------------------------------------
    def _unloaded(self, partition: int, led: Led) -> None:
        for group in led.groups.values():
            self._run(partition, led, group, group.unload())

    def _loaded(self, partition: int, led: Led, now: Now) -> None:
        for group_id in [g for g, x in led.groups.items() if self._forgotten(x)]:
            del led.groups[group_id]
        for group in led.groups.values():
            for m in group.members.values():
                m.deadline_ms = now.mono_ms + m.session_ms
        log.info("__consumer_offsets-%d loaded: %d groups", partition, len(led.groups))

    @staticmethod
    def _forgotten(group: Group) -> bool:
        return not group.members and group.commits.none

    def _replay(self, led: Led, data: bytes, at: int, header: BatchHeader) -> None:
        if header.is_control:
            said = marker_of(data, at, header)
            if said is not None:
                led.ended(header.producer_id, said.commit)
            return
        producer_id = header.producer_id if header.is_transactional else None
        for record in records_of(data, at, header):
            if record.offset >= led.next_offset:
                self._replay_record(led, record, producer_id)

    def _replay_record(self, led: Led, record: Record, producer_id: int | None) -> None:
        try:
            key = formats.read_key(record.key or b"")
            group = self._group(led, key.group_id)
            if key.topic is not None:
                place = (key.topic, key.partition)
                if record.value is None:
                    group.commits.forget(place)
                else:
                    group.commits.place(place, formats.read_offset(record.value), record.offset, producer_id)
                    if producer_id is not None:
                        led.touched.setdefault(producer_id, set()).add(key.group_id)
            elif record.value is None:
                led.groups.pop(key.group_id, None)
            else:
                formats.read_group(group, record.value)
        except ValueError as e:
            log.warning("a record of __consumer_offsets at %d is skipped: %s", record.offset, e)

    def _group(self, led: Led, group_id: str) -> Group:
        group = led.groups.get(group_id)
        if group is None:
            group = led.groups[group_id] = Group(group_id, self._initial_delay_ms, self._size_max)
        return group

    # -- finding -----------------------------------------------------------------------------------------------------------
    def existing(self, group_id: str) -> tuple[Group | None, int]:
        """(group or None when there is none, error)."""
        _, led, error = self.find(group_id)
        if error or led is None:
            return None, error
        return led.groups.get(group_id), NONE

    def draw_member_id(self, client_id: str, instance_id: str | None) -> str:
        return f"{instance_id or client_id or 'member'}-{self._draw()}"

    def handle(self, group_id: str, event: events.Event) -> int:
        """Give `event` to the group (made if need be). An error means that it was not given and the caller answers."""
        partition, led, error = self.find(group_id)
        if error or led is None:
            return error
        group = self._group(led, group_id)
        self._run(partition, led, group, group.handle(event, self._clock()))
        return NONE

    # -- effects -----------------------------------------------------------------------------------------------------------
    def _run(self, partition: int, led: Led, group: Group, effects: Sequence[events.Effect]) -> None:
        now = self._clock()
        for effect in effects:
            match effect:
                case Reply():
                    effect.token(effect.answer)
                case events.PersistOffsets():
                    records = [
                        Record(i, now.wall_ms, formats.offset_key(group.group_id, t, p), formats.offset_value(o))
                        for i, ((t, p), o) in enumerate(effect.offsets.items())
                    ]
                    if effect.producer is not None:
                        led.touched.setdefault(effect.producer[0], set()).add(group.group_id)
                    self._persist(partition, led, group, effect.number, records, effect.producer)
                case events.PersistGroup():
                    value = formats.group_value(group, effect.assignments, now.wall_ms)
                    record = Record(0, now.wall_ms, formats.group_key(group.group_id), value)
                    self._persist(partition, led, group, effect.number, [record])

    def _persist(
        self,
        partition: int,
        led: Led,
        group: Group,
        number: int,
        records: Sequence[Record],
        producer: tuple[int, int] | None = None,
    ) -> None:
        log_offset = self._log.end_offset(partition)

        def done(error: int) -> None:
            if self.led.get(partition) is not led:
                return  # resigned since: whoever waited has been told
            if error == NONE:
                self._run(partition, led, group, group.handle(events.Persisted(number, log_offset), self._clock()))
                return
            told = COORDINATOR_NOT_AVAILABLE if error in REFUSED_BEFORE_APPEND else NOT_COORDINATOR
            self._run(partition, led, group, group.handle(events.PersistFailed(number, told), self._clock()))
            if error not in REFUSED_BEFORE_APPEND:
                self._unknown(partition, led, error)

        if producer is None:
            batch = build(records)
        else:
            batch = build(
                records, producer_id=producer[0], producer_epoch=producer[1], base_sequence=0, transactional=True
            )
        self._log.append(partition, batch, led.epoch, done)

    def transaction_ended(self, partition: int, producer_id: int, committed: bool) -> None:
        """Its marker is replicated. A partition that is still loading meets it in the log."""
        led = self.led.get(partition)
        if led is not None and led.loaded:
            led.ended(producer_id, committed)

    def unstable(self, group_id: str) -> set[TopicIndex]:
        """Offsets that a transaction may change yet."""
        group, _ = self.existing(group_id)
        return group.commits.unstable() if group is not None else set()

    def tombstones(
        self, group_id: str, group: Group, keys: Sequence[TopicIndex], whole: bool, done: Callable[[int], None]
    ) -> None:
        """Forget offsets (and, with `whole`, the group itself); `done(error)` once that is replicated."""
        partition, led, error = self.find(group_id)
        if error or led is None:
            done(error)
            return
        now = self._clock()
        records = [Record(i, now.wall_ms, formats.offset_key(group_id, t, p), None) for i, (t, p) in enumerate(keys)]
        if whole:
            records.append(Record(len(records), now.wall_ms, formats.group_key(group_id), None))
        if not records:
            done(NONE)
            return
        for key in keys:
            group.commits.forget(key)
        if whole:
            group.state = State.DEAD
            led.groups.pop(group_id, None)
        self._log.append(
            partition, build(records), led.epoch, lambda e: done(NONE if e == 0 else COORDINATOR_NOT_AVAILABLE)
        )

    def _expire(self, now: Now) -> None:
        """Offsets of groups that have been empty for longer than the retention, and those groups."""
        for led in list(self.led.values()):
            if not led.loaded:
                continue
            for group_id, group in list(led.groups.items()):
                if group.state is not State.EMPTY or now.wall_ms - group.empty_since_wall_ms <= self._retention_ms:
                    continue
                if group.commits.undecided:
                    continue
                old = [
                    k for k, o in group.commits.offsets.items() if now.wall_ms - o.commit_wall_ms > self._retention_ms
                ]
                if old or not group.commits.offsets:
                    self.tombstones(group_id, group, old, len(old) == len(group.commits.offsets), lambda e: None)

    def topic_deleted(self, name: str) -> None:
        for led in list(self.led.values()):
            if led.loaded:
                for group_id, group in list(led.groups.items()):
                    keys = [k for k in group.commits.offsets if k[0] == name]
                    if keys:
                        self.tombstones(group_id, group, keys, False, lambda e: None)

    def offsets(self, group_id: str) -> tuple[Mapping[TopicIndex, Offset], int]:
        group, error = self.existing(group_id)
        return (group.commits.offsets if group is not None else {}), error
