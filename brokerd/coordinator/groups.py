"""Where groups live: the partitions of __consumer_offsets that this broker leads.

Law: what a group wants persisted is replicated before the group is told so. When a partition is served is the question of `leading`.
Called by the doors and the broker's tick. Must not come in: sockets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, Now
from brokerd.coordinator import consumer_records, conversion, events, leading, mixed_group, retention
from brokerd.coordinator import records as formats
from brokerd.coordinator.consumer_events import GROUP_ID_NOT_FOUND, JOINS, Beat, PersistChanges, Terms, Topics
from brokerd.coordinator.events import Reply, State, TopicIndex
from brokerd.coordinator.group import Group
from brokerd.coordinator.leading import (
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
    REFUSED_BEFORE_APPEND,
    SILENT_MS,
    CoordinatorLog,
    Leading,
)
from brokerd.coordinator.mixed_group import MixedGroup
from brokerd.coordinator.offsets import Commits
from brokerd.coordinator.replay import AnyGroup, Replay
from brokerd.coordinator.settings import BIDIRECTIONAL, DOWNGRADE, UPGRADE
from brokerd.wire.records import BatchHeader, Record, build, marker_of, records_of

log = logging.getLogger(__name__)

INVALID_GROUP_ID, NON_EMPTY_GROUP, OFFSET_METADATA_TOO_LARGE = 24, 68, 12
BATCH_BYTES = 500_000
"""Of the changes of one step; more are several batches. Their order makes each beginning of them a group that goes on from there."""

Event = events.Event | mixed_group.Event
Effect = events.Effect | PersistChanges


@dataclass(slots=True)
class Led(leading.Led):
    groups: dict[str, AnyGroup] = field(default_factory=dict)
    touched: dict[int, set[str]] = field(default_factory=dict)
    """{producer id: groups with offsets of its transaction}."""
    replaced: list[MixedGroup] = field(default_factory=list)
    """Groups that are no more, with members whose last word is on its way to the log."""
    unsure: bool = False
    """At the last tick whoever asked was refused."""

    def replace(self, group: AnyGroup, by: AnyGroup | None) -> None:
        self.replaced = [x for x in self.replaced if x.waits]
        if isinstance(group, MixedGroup) and group.waits:
            self.replaced.append(group)
        if by is None:
            del self.groups[group.group_id]
        else:
            self.groups[group.group_id] = by

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
        topics: Topics,
        terms: Callable[[str], Terms],
        migration: str = BIDIRECTIONAL,
        draw: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        super().__init__(GROUP_OFFSETS_TOPIC, coordinator_log, clock, Led)
        self._draw, self._topics, self._terms = draw, topics, terms
        self._initial_delay_ms, self._size_max = initial_delay_ms, size_max
        self._retention_ms, self.metadata_bytes_max = retention_ms, metadata_bytes_max
        self._upgrades = migration in (BIDIRECTIONAL, UPGRADE)
        self._downgrades = migration in (BIDIRECTIONAL, DOWNGRADE)
        self._expired_ms = 0
        self._replayed = Replay(self._classic, self._consumer)

    def _classic(self, group_id: str, commits: Commits) -> Group:
        return Group(group_id, self._initial_delay_ms, self._size_max, commits=commits)

    def _consumer(self, group_id: str, commits: Commits) -> MixedGroup:
        return MixedGroup(group_id, topics=self._topics, terms=self._terms(group_id), commits=commits)

    # -- time ------------------------------------------------------------------------------------------------------------
    def tick(self, now: Now) -> None:
        for partition, led in list(self.led.items()):
            if not led.loaded:
                self._load(partition, led, now)
                continue
            if not self._log.sure(partition):
                led.unsure = True  # whoever beats now is refused: nobody's silence counts
                continue
            if led.unsure:
                led.unsure = False
                self._listen_anew(led, now)
            for group in list(led.groups.values()):
                deadline = group.deadline_ms()
                if deadline is not None and deadline <= now.mono_ms:
                    self._tell(partition, led, group, events.Tick(), now)
        if now.mono_ms - self._expired_ms > 60_000:
            self._expired_ms = now.mono_ms
            self._expire(now)

    # -- loading -----------------------------------------------------------------------------------------------------------
    def _unloaded(self, partition: int, led: Led) -> None:
        for group in (*led.groups.values(), *led.replaced):
            self._run(partition, led, group, group.unload())

    def _loaded(self, partition: int, led: Led, now: Now) -> None:
        for group_id in [g for g, x in led.groups.items() if self._forgotten(x)]:
            del led.groups[group_id]
        # Whom its predecessor has answered since, deposed unheard, holds what it has for a session from then on.
        self._listen_anew(led, now._replace(mono_ms=now.mono_ms + SILENT_MS))
        log.info("__consumer_offsets-%d loaded: %d groups", partition, len(led.groups))

    @staticmethod
    def _listen_anew(led: Led, now: Now) -> None:
        """Nobody could be heard until now."""
        for group in led.groups.values():
            group.listen_anew(now)

    @staticmethod
    def _forgotten(group: AnyGroup) -> bool:
        """Nothing in the log speaks of it but tombstones. (A classic group that is empty and has no offsets is as good as that.)"""
        return not group.members and group.commits.none and (isinstance(group, Group) or not group.epoch)

    def _replay(self, led: Led, data: bytes, at: int, header: BatchHeader) -> None:
        if header.is_control:
            said = marker_of(data, at, header)
            if said is not None:
                led.ended(header.producer_id, said.commit)
            return
        producer_id = header.producer_id if header.is_transactional else None
        for record in records_of(data, at, header):
            if record.offset < led.next_offset:
                continue
            try:
                touched = self._replayed.read(led.groups, record, producer_id)
            except ValueError as e:
                log.warning("a record of __consumer_offsets at %d is skipped: %s", record.offset, e)
                continue
            if touched is not None and producer_id is not None:
                led.touched.setdefault(producer_id, set()).add(touched)

    def terms_changed(self, group_id: str) -> None:
        """Whoever beats next is told; sessions that run end as they would have."""
        group, _ = self.existing(group_id)
        if isinstance(group, MixedGroup):
            group.terms = self._terms(group_id)

    # -- finding -----------------------------------------------------------------------------------------------------------
    def existing(self, group_id: str) -> tuple[AnyGroup | None, int]:
        """(group or None when there is none, error)."""
        _, led, error = self.find(group_id)
        if error or led is None:
            return None, error
        return led.groups.get(group_id), NONE

    def draw_member_id(self, client_id: str, instance_id: str | None) -> str:
        return f"{instance_id or client_id or 'member'}-{self._draw()}"

    def handle(self, group_id: str, event: Event) -> int:
        """Give `event` to the group (made if need be). An error means that it was not given and the caller answers."""
        partition, led, error = self.find(group_id)
        if error or led is None:
            return error
        group, error = self._fitting(partition, led, group_id, event)
        if group is None:
            return error
        self._tell(partition, led, group, event, self._clock())
        return NONE

    def _tell(self, partition: int, led: Led, group: AnyGroup, event: Event, now: Now) -> None:
        # The machines are given what is theirs by `_fitting`.
        self._run(partition, led, group, group.handle(event, now))  # type: ignore[arg-type]
        if isinstance(group, MixedGroup) and group.classic_alone:
            self._downgrade(partition, led, group)

    def _fitting(self, partition: int, led: Led, group_id: str, event: Event) -> tuple[AnyGroup | None, int]:
        """The group that is to hear the event; with neither group nor error it has been dealt with. An empty group of the other protocol
        is taken over with its offsets; its generations go on."""
        group = led.groups.get(group_id)
        if isinstance(event, Beat):
            if isinstance(group, MixedGroup):
                return group, NONE
            if event.epoch != JOINS:
                return None, events.UNKNOWN_MEMBER_ID
            if group is not None and group.state is not State.EMPTY:
                return None, self._upgrade(partition, led, group, event)
            new = self._consumer(group_id, group.commits if group is not None else Commits())
            new.epoch = group.generation if group is not None else 0
            made: AnyGroup = new
        elif isinstance(event, events.Join | events.Sync | events.Heartbeat | events.Leave):
            if isinstance(group, Group):
                return group, NONE
            if group is not None and group.members:
                return group, NONE
            if group is not None and not isinstance(event, events.Join):
                return None, events.UNKNOWN_MEMBER_ID
            made = self._classic(group_id, group.commits if group is not None else Commits())
            made.generation = group.epoch if group is not None else 0
        elif group is not None:
            return group, NONE
        else:
            made = self._classic(group_id, Commits())
        if group is not None:
            self._write(partition, led, self._removal(group), lambda error: None)
            led.replace(group, made)
        led.groups[group_id] = made
        return made, NONE

    # -- from one protocol to the other ------------------------------------------------------------------------------------
    def _upgrade(self, partition: int, led: Led, old: Group, event: Beat) -> int:
        """A member of the new protocol comes to a living group of the classic one: they are one group of the new protocol from now on."""
        if not self._upgrades:
            return GROUP_ID_NOT_FOUND
        try:
            brought = conversion.brought(old, self._topics)
        except ValueError as e:
            log.info("the classic group %r stays one: %s", old.group_id, e)
            return GROUP_ID_NOT_FOUND
        new = led.groups[old.group_id] = self._consumer(old.group_id, old.commits)
        self._run(partition, led, new, new.found(brought, event, self._clock()))
        if self.led.get(partition) is not led:
            self._run(partition, led, old, old.unload())
            return NONE
        if not new.members:
            led.groups[old.group_id] = old  # refused, by its rules or by the log
            return NONE
        log.info("the group %r goes over to the new protocol with %d members", old.group_id, len(new.members))
        new.promised.update(old.promised)
        told, joins = conversion.released(old)
        self._run(partition, led, new, told)
        for join in joins:
            self.handle(old.group_id, join)
        return NONE

    def _downgrade(self, partition: int, led: Led, old: MixedGroup) -> None:
        """Only members of the classic protocol are left: they are left to themselves."""
        if not self._downgrades or led.groups.get(old.group_id) is not old or len(old.members) > self._size_max:
            return
        new = self._classic(old.group_id, old.commits)
        removal = [(consumer_records.key(old.group_id, c), None) for c in old.tombstones()]
        conversion.to_classic(old, new, self._clock())
        value = formats.group_value(
            new, {m.member_id: m.assignment for m in new.members.values()}, self._clock().wall_ms
        )
        log.info("the group %r goes back to the classic protocol with %d members", old.group_id, len(new.members))
        led.groups[old.group_id] = new
        appended = 0

        def done(error: int) -> None:
            if not error or self.led.get(partition) is not led:
                return
            if error in REFUSED_BEFORE_APPEND and not appended:
                led.groups[old.group_id] = old  # until the next that is heard of it
            else:
                self._unknown(partition, led, error)

        # The record first: whatever part of the rest a successor finds is of a group that was before.
        for portion in _portions([(formats.group_key(old.group_id), value), *removal]):
            if led.groups.get(old.group_id) is new and self.led.get(partition) is led:
                self._write(partition, led, self._records(portion), done)
                appended += 1
        if led.groups.get(old.group_id) is new:
            old.end()

    def _removal(self, group: AnyGroup) -> list[Record]:
        """What takes a group, but not its offsets, out of the log."""
        if isinstance(group, Group):
            return self._records([(formats.group_key(group.group_id), None)])
        return self._records([(consumer_records.key(group.group_id, c), None) for c in group.tombstones()])

    def _records(self, pairs: Iterable[tuple[bytes, bytes | None]]) -> list[Record]:
        wall_ms = self._clock().wall_ms
        return [Record(i, wall_ms, key, value) for i, (key, value) in enumerate(pairs)]

    # -- effects -----------------------------------------------------------------------------------------------------------
    def _run(self, partition: int, led: Led, group: AnyGroup, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply():
                    effect.token(effect.answer)
                case events.PersistOffsets():
                    pairs = [
                        (formats.offset_key(group.group_id, t, p), formats.offset_value(o))
                        for (t, p), o in effect.offsets.items()
                    ]
                    if effect.producer is not None:
                        led.touched.setdefault(effect.producer[0], set()).add(group.group_id)
                    self._persist(partition, led, group, effect.number, self._records(pairs), effect.producer)
                case events.PersistGroup():
                    assert isinstance(group, Group)
                    value = formats.group_value(group, effect.assignments, self._clock().wall_ms)
                    records = self._records([(formats.group_key(group.group_id), value)])
                    self._persist(partition, led, group, effect.number, records)
                case PersistChanges():
                    facts = [
                        (consumer_records.key(group.group_id, c), consumer_records.value(c)) for c in effect.changes
                    ]
                    if effect.after_classic:
                        facts.append((formats.group_key(group.group_id), None))
                    *before, last = _portions(facts)
                    for portion in before:
                        self._write(partition, led, self._records(portion), partial(self._part_of_more, partition, led))
                        if self.led.get(partition) is not led:
                            return  # loading anew
                    self._persist(partition, led, group, effect.number, self._records(last), alone=not before)

    def _part_of_more(self, partition: int, led: Led, error: int) -> None:
        if error and self.led.get(partition) is led:
            self._unknown(partition, led, error)

    def _persist(
        self,
        partition: int,
        led: Led,
        group: AnyGroup,
        number: int,
        records: Sequence[Record],
        producer: tuple[int, int] | None = None,
        alone: bool = True,
    ) -> None:
        """`alone`: if this is refused before it is appended, nothing of it stands in the log."""
        log_offset = self._log.end_offset(partition)
        at_once = True

        def done(error: int) -> None:
            if self.led.get(partition) is not led:
                return  # resigned since: whoever waited has been told
            if error == NONE:
                self._tell(partition, led, group, events.Persisted(number, log_offset), self._clock())
                return
            refused = error in REFUSED_BEFORE_APPEND
            if refused and not at_once and isinstance(group, MixedGroup):
                refused = False  # it has moved on since: what it was before is to be read in the log
            if refused and alone:
                failed = events.PersistFailed(number, COORDINATOR_NOT_AVAILABLE)
                self._run(partition, led, group, group.handle(failed, self._clock()))
                return
            failed = events.PersistFailed(number, NOT_COORDINATOR)
            if isinstance(group, Group):
                self._run(partition, led, group, group.handle(failed, self._clock()))
            self._unknown(partition, led, error)

        self._write(partition, led, records, done, producer)
        at_once = False

    def _write(
        self,
        partition: int,
        led: Led,
        records: Sequence[Record],
        done: Callable[[int], None],
        producer: tuple[int, int] | None = None,
    ) -> None:
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

    def tombstones(
        self, group_id: str, group: AnyGroup, keys: Sequence[TopicIndex], whole: bool, done: Callable[[int], None]
    ) -> None:
        """Forget offsets (and, with `whole`, the group itself); `done(error)` once that is replicated."""
        partition, led, error = self.find(group_id)
        if error or led is None:
            done(error)
            return
        gone = [(formats.offset_key(group_id, t, p), None) for t, p in keys]
        if whole:
            gone += [(record.key or b"", None) for record in self._removal(group)]
        if not gone:
            done(NONE)
            return
        for key in keys:
            group.commits.forget(key)
        if whole:
            group.end()
            led.replace(group, None)
        told = lambda e: done(NONE if e == 0 else COORDINATOR_NOT_AVAILABLE)  # noqa: E731
        self._write(partition, led, self._records(gone), told)

    def _expire(self, now: Now) -> None:
        for led in list(self.led.values()):
            for group_id, group in list(led.groups.items()) if led.loaded else ():
                old, whole = retention.expired(group, now, self._retention_ms)
                if old or whole:
                    self.tombstones(group_id, group, old, whole, lambda e: None)

    def topic_deleted(self, name: str) -> None:
        for led in list(self.led.values()):
            if led.loaded:
                for group_id, group in list(led.groups.items()):
                    keys = [k for k in group.commits.offsets if k[0] == name]
                    if keys:
                        self.tombstones(group_id, group, keys, False, lambda e: None)


def _portions(pairs: Iterable[tuple[bytes, bytes | None]]) -> Iterator[list[tuple[bytes, bytes | None]]]:
    portion: list[tuple[bytes, bytes | None]] = []
    size = 0
    for key, value in pairs:
        portion.append((key, value))
        size += len(key) + len(value or b"")
        if size >= BATCH_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
