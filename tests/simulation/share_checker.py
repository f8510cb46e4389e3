"""The rules of share groups, checked at the borders of the product: what a leader loads, delivers, accepts as acknowledged and writes.

`ShareChecker` keeps one entry per record, where the product keeps runs of offsets. Rules: a record has one holder until its lock ends or the holder gives
it up, within the time that a leader uses the same state. Each delivery has the count of the one before plus one, and no count is above the limit. A
leader writes what it did, and its start offset passes only records whose delivery has ended. A loaded state contains every write that was confirmed.
An acknowledgement is confirmed after its write. A record whose acceptance a member knows is not delivered again. With dead letters, a record whose
delivery has failed has one from each leader that had it to write, at least one and none before the state is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from brokerd.apis.share_partitions import Fetched, Shared, SharePartitions
from brokerd.coordinator.shard import FOLLOWER_SILENCE_MS_MAX
from brokerd.coordinator.share_state.persister import SharePersister
from brokerd.coordinator.share_state.records import SharePartitionKey
from brokerd.coordinator.share_state.state import NO_START, ShareState, StateUpdate
from brokerd.sharing.delivery import Acknowledgement, AcknowledgeType, RecordState
from brokerd.sharing.share_partition import SharePartition
from tests.simulation.checkers import Violation
from tests.simulation.world import MS, World

AVAILABLE, ACQUIRED, ARCHIVING = RecordState.AVAILABLE, RecordState.ACQUIRED, RecordState.ARCHIVING
AFTER = {
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
    AcknowledgeType.RELEASE: AVAILABLE,
}
DEPOSED_MS_MAX = FOLLOWER_SILENCE_MS_MAX + 500
"""Time from the load by a new leader in which the old leader may deliver what the new one has finished: it believes in its leadership while its
followers fetch."""
Place = tuple[int, int]
"""(partition, offset)."""


@dataclass(slots=True)
class Copy:
    """One record in the state of a leader. `until_ms`: end of the lock on the leader's monotonic clock."""

    state: RecordState = AVAILABLE
    count: int = 0
    member: str = ""
    until_ms: int = 0


@dataclass(slots=True)
class Leader:
    """The share partition as one leader loaded and changed it."""

    place: SharePartitionKey
    start: int
    records: dict[int, Copy] = field(default_factory=dict)

    def record(self, offset: int) -> Copy:
        return self.records.setdefault(offset, Copy())


@dataclass(slots=True)
class ConfirmedStates:
    """The states that the share coordinator has confirmed, and those that were sent to it. `sent`: {offset: every (state, count)}."""

    start: int = NO_START
    confirmed: dict[int, tuple[int, int]] = field(default_factory=dict)
    sent: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    starts_sent: set[int] = field(default_factory=lambda: {NO_START})


class ShareChecker:
    """`lock_ms`, `deliveries_max`, `dead_letters`: the settings of the group."""

    def __init__(self, world: World, lock_ms: int, deliveries_max: int, *, dead_letters: bool = False) -> None:
        self.world, self.lock_ms, self.deliveries_max = world, lock_ms, deliveries_max
        self.dead_letters = dead_letters
        self.letters_due: set[Place] = set()
        """Records whose state ARCHIVING is stored."""
        self.letters_max: Counter[Place] = Counter()
        """How many leaders had the dead letter of a record to write."""
        self.leaders: dict[int, Leader] = {}
        """By the id of the product's state machine, which `machines` keeps alive."""
        self.machines: list[SharePartition] = []
        self.stored: dict[SharePartitionKey, ConfirmedStates] = {}
        self.newest: dict[SharePartitionKey, tuple[int, int]] = {}
        """The newest leader epoch that has loaded a share partition, and when (us)."""
        self.accepted: dict[Place, str] = {}
        """Records whose acceptance was confirmed to a member, and that member."""
        self.accepts_stored: set[Place] = set()
        """Records that a leader has accepted as accepted, and stored. A late acceptance below the start offset is answered, too, and changes nothing."""
        self.sent_types: dict[Place, set[AcknowledgeType]] = {}
        self.deliveries_seen: dict[Place, int] = {}
        """The greatest delivery count of a record."""

    # -- loads ---------------------------------------------------------------------------------------------------------
    def loaded(self, shared: Shared, state: ShareState) -> None:
        stored = self.stored.setdefault(shared.place, ConfirmedStates())
        if shared.epoch > self.newest.get(shared.place, (-1, 0))[0]:
            self.newest[shared.place] = shared.epoch, self.world.now_us
        if state.start < stored.start:
            raise Violation(f"{shared.place}: start {state.start} is loaded after {stored.start} was confirmed")
        if state.start not in stored.starts_sent:
            raise Violation(f"{shared.place}: start {state.start} is loaded, which no leader wrote")
        core = shared.core
        assert core is not None
        leader = Leader(shared.place, state.start if state.start != NO_START else core.start)
        self.leaders[id(core)] = leader
        self.machines.append(core)
        found = {o: (b.state, b.deliveries) for b in state.batches for o in range(b.first, b.last + 1)}
        for offset, value in found.items():
            if value not in stored.sent.get(offset, ()):
                raise Violation(f"{shared.place}: {value} is loaded for {offset}, which no leader wrote")
            leader.records[offset] = Copy(RecordState(value[0]), value[1])
            if value[0] == ARCHIVING:
                self.letters_due.add((shared.place.partition, offset))
                self.letters_max[shared.place.partition, offset] += 1
                self.world.reached["share partition loaded with dead letters to write"] += 1
        for offset, (was, count) in stored.confirmed.items():
            now, count_now = found.get(offset, (AVAILABLE, 0))
            lost = RecordState(was).final and now != was
            lost |= was == ARCHIVING and now not in (ARCHIVING, RecordState.ARCHIVED)
            if offset >= state.start and (lost or count_now < count):
                raise Violation(f"{shared.place}: {offset} was stored as {(was, count)}, loaded: {(now, count_now)}")
        self.world.reached["share partition loaded"] += 1
        self.world.reached["share partition loaded with records in flight"] += bool(found)

    # -- deliveries ----------------------------------------------------------------------------------------------------
    def acquired(self, shared: Shared, member: str, fetched: Fetched, now_ms: int) -> None:
        leader = self.leaders[id(shared.core)]
        for a in fetched.acquired:
            for offset in range(a.first, a.last + 1):
                place = (shared.place.partition, offset)
                record = leader.record(offset)
                if place in self.accepted:
                    self._delivered_again(shared, place, member)
                if offset < leader.start or record.state.final or record.state is ARCHIVING:
                    raise Violation(f"{place} goes to {member} after its delivery has ended: {record}")
                if record.state is ACQUIRED:
                    raise Violation(f"{place} goes to {member} at {now_ms}; another member holds it: {record}")
                if a.deliveries != record.count + 1 or a.deliveries > self.deliveries_max:
                    raise Violation(f"{place}: delivery {a.deliveries} follows {record}; limit {self.deliveries_max}")
                leader.records[offset] = Copy(ACQUIRED, a.deliveries, member, now_ms + self.lock_ms)
                self.deliveries_seen[place] = max(self.deliveries_seen.get(place, 0), a.deliveries)

    def _delivered_again(self, shared: Shared, place: Place, member: str) -> None:
        """A deposed leader may not know that its successor delivers, for a short time."""
        epoch, since_us = self.newest[shared.place]
        if shared.epoch == epoch or self.world.now_us > since_us + DEPOSED_MS_MAX * MS:
            raise Violation(f"{place} goes to {member}; {self.accepted[place]} knows that it is accepted")
        self.world.reached["accepted record delivered by a deposed leader"] += 1

    def acknowledged(self, core: SharePartition, member: str, steps: Sequence[Acknowledgement], now_ms: int) -> None:
        """The leader has accepted the acknowledgements. They are not durable yet."""
        leader = self.leaders[id(core)]
        for offset, kind in each(steps):
            record = leader.record(offset)
            if offset < leader.start or record.state.final:
                continue  # its delivery ended earlier, and the start offset has passed it
            if record.state is not ACQUIRED or record.member != member:
                raise Violation(f"{leader.place}: {member} acknowledges {offset}, which it does not hold: {record}")
            if kind is AcknowledgeType.RENEW:
                record.until_ms = now_ms + self.lock_ms
                self.world.reached["lock renewed"] += 1
            else:
                self._given_up(leader, offset, AFTER[kind])

    def _given_up(self, leader: Leader, offset: int, state: RecordState) -> None:
        record = leader.record(offset)
        last = state is AVAILABLE and record.count >= self.deliveries_max
        record.state, record.member = RecordState.ARCHIVED if last else state, ""
        if self.dead_letters and record.state is RecordState.ARCHIVED:
            record.state = ARCHIVING
            self.letters_max[leader.place.partition, offset] += 1
        self.world.reached["record archived after its last delivery"] += last

    def archived(self, core: SharePartition, first: int, last: int) -> None:
        """The leader says that the dead letters of these records are written."""
        leader = self.leaders[id(core)]
        for offset in range(first, last + 1):
            record = leader.record(offset)
            if record.state is ARCHIVING:
                record.state = RecordState.ARCHIVED

    def released(self, core: SharePartition, member: str) -> None:
        """The share session of the member has ended."""
        for record in self.leaders[id(core)].records.values():
            if record.state is ACQUIRED and record.member == member:
                record.state, record.member, record.count = AVAILABLE, "", record.count - 1
                self.world.reached["lock ended with the session"] += 1

    def expired(self, core: SharePartition, now_ms: int) -> None:
        """The leader ends the locks whose time has passed."""
        leader = self.leaders[id(core)]
        for offset, record in leader.records.items():
            if record.state is ACQUIRED and record.until_ms <= now_ms:
                self._given_up(leader, offset, AVAILABLE)
                self.world.reached["lock ended by its time-out"] += 1

    def confirmed(self, shared: Shared, start: int, steps: Sequence[Acknowledgement]) -> None:
        """The leader answers acknowledgements without an error. `start`: its start offset when they came."""
        stored = self.stored[shared.place]
        for offset, kind in each(steps):
            if kind is AcknowledgeType.ACCEPT and offset >= start:
                self.accepts_stored.add((shared.place.partition, offset))
            state, _ = stored.confirmed.get(offset, (AVAILABLE, 0))
            final = RecordState(state).final or offset < max(start, stored.start)
            final |= state == ARCHIVING and kind is AcknowledgeType.REJECT
            if kind in (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT) and not final:
                raise Violation(f"{shared.place}: {kind.name} of {offset} is answered before it is stored")

    # -- writes --------------------------------------------------------------------------------------------------------
    def writes(self, core: SharePartition, update: StateUpdate) -> bool:
        """A leader sends a write, which describes the change of its state. Returns whether the write must be refused: a later leader has loaded the state."""
        leader = self.leaders[id(core)]
        stored = self.stored[leader.place]
        for offset in range(leader.start, update.start):
            record = leader.record(offset)
            if not record.state.final:
                raise Violation(
                    f"{leader.place}: start {update.start} passes {offset}, whose delivery goes on: {record}"
                )
        leader.start = max(leader.start, update.start)
        for batch in update.batches:
            for offset in range(batch.first, batch.last + 1):
                record = leader.record(offset)
                if (record.state, record.count) != (batch.state, batch.deliveries):
                    raise Violation(f"{leader.place}: {batch} is written for {offset}, which is {record}")
                stored.sent.setdefault(offset, set()).add((batch.state, batch.deliveries))
        stored.starts_sent.add(update.start)
        return update.leader_epoch < self.newest[leader.place][0]

    def wrote(self, place: SharePartitionKey, update: StateUpdate, late: bool, error: int) -> None:
        """The share coordinator has answered a write. `late`: it must be refused."""
        if error:
            self.world.reached["share state write refused"] += 1
            return
        if late:
            raise Violation(f"{place}: a write of leader epoch {update.leader_epoch} is stored after a later load")
        stored = self.stored[place]
        stored.start = max(stored.start, update.start)
        for batch in update.batches:
            for offset in range(batch.first, batch.last + 1):
                stored.confirmed[offset] = (batch.state, batch.deliveries)
                if batch.state == ARCHIVING:
                    self.letters_due.add((place.partition, offset))

    # -- members -------------------------------------------------------------------------------------------------------
    def sends(self, place: Place, kind: AcknowledgeType) -> None:
        self.sent_types.setdefault(place, set()).add(kind)

    def knows(self, place: Place, kind: AcknowledgeType, member: str) -> None:
        """A member got the answer that its acknowledgement is durable."""
        self.world.reached[f"confirmed: {kind.name.lower()}"] += 1
        if kind is AcknowledgeType.ACCEPT:
            self.accepted[place] = member

    def judge(self, ends: dict[int, int]) -> None:
        """`ends`: {partition: end offset}. The delivery of every record has ended, and for a reason."""
        for partition, end in ends.items():
            for offset in range(end):
                place = (partition, offset)
                types = self.sent_types.get(place, set())
                last = self.deliveries_seen.get(place, 0) >= self.deliveries_max
                if not last and types.isdisjoint((AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)):
                    raise Violation(
                        f"{place} was delivered {self.deliveries_seen.get(place, 0)} times, then never again"
                    )

    def judge_letters(self, letters: Mapping[Place, int]) -> None:
        """`letters`: the number of dead letters of each record, at the end."""
        for place in sorted(self.letters_due):
            if not letters.get(place):
                raise Violation(f"{place} is archived without a dead letter")
        for place, number in sorted(letters.items()):
            if place in self.accepts_stored:
                raise Violation(f"{place} has a dead letter, and its acceptance is stored")
            if place not in self.letters_due:
                raise Violation(f"{place} has a dead letter before its state is stored")
            if number > self.letters_max[place]:
                raise Violation(f"{place} has {number} dead letters of {self.letters_max[place]} leaders")
            self.world.reached["dead letter"] += 1
            self.world.reached["second dead letter after a change of the leader"] += number > 1


def each(steps: Sequence[Acknowledgement]) -> Iterator[tuple[int, AcknowledgeType]]:
    """(offset, type) of every acknowledged record."""
    for a in steps:
        for i, offset in enumerate(range(a.first, a.last + 1)):
            yield offset, AcknowledgeType(a.types[i if len(a.types) > 1 else 0])


@contextmanager
def watched(checker: ShareChecker) -> Iterator[None]:
    """Report to the checker each load, delivery, acceptance, answer and write of every leader."""
    loaded, acquire, answer, flush = (
        SharePartitions._on_loaded,
        SharePartitions.acquire,
        SharePartitions.acknowledge,
        SharePartitions.flush,
    )
    acknowledge, release, expire = SharePartition.acknowledge, SharePartition.release, SharePartition.expire
    archive = SharePartition.archive
    write = SharePersister.write
    states: list[ShareState] = []
    """The state of the load in progress. The first flush ends the load and may write."""
    writing: list[SharePartition | None] = []

    def watch_loaded(self: SharePartitions, shared: Shared, state: ShareState) -> None:
        states.append(state)
        loaded(self, shared, state)

    def watch_flush(self: SharePartitions, shared: Shared) -> None:
        if states:
            checker.loaded(shared, states.pop())
        writing.append(shared.core)
        try:
            flush(self, shared)
        finally:
            writing.pop()

    def watch_write(
        self: SharePersister,
        place: SharePartitionKey,
        state_epoch: int,
        update: StateUpdate,
        done: Callable[[int], None],
        needed: Callable[[], bool],
    ) -> None:
        core = writing[-1]
        assert core is not None
        late = checker.writes(core, update)

        def written(error: int) -> None:
            checker.wrote(place, update, late, error)
            done(error)

        write(self, place, state_epoch, update, written, needed)

    def watch_acquire(self: SharePartitions, shared: Shared, member: str, limits: Any) -> Fetched | None:
        fetched = acquire(self, shared, member, limits)
        if fetched is not None:
            checker.acquired(shared, member, fetched, self._clock().mono_ms)
        return fetched

    def watch_answer(
        self: SharePartitions, shared: Shared, member: str, steps: list[Acknowledgement], renew: bool, done: Any
    ) -> None:
        start = shared.core.start if shared.core is not None else NO_START

        def answered(error: int) -> None:
            if not error:
                checker.confirmed(shared, start, steps)
            done(error)

        answer(self, shared, member, steps, renew, answered)

    def watch_acknowledge(
        self: SharePartition, member: str, steps: Sequence[Acknowledgement], now_ms: int, *, renew: bool = False
    ) -> Any:
        error = acknowledge(self, member, steps, now_ms, renew=renew)
        if not error:
            checker.acknowledged(self, member, steps, now_ms)
        return error

    def watch_release(self: SharePartition, member: str) -> bool:
        checker.released(self, member)
        return release(self, member)

    def watch_expire(self: SharePartition, now_ms: int) -> bool:
        checker.expired(self, now_ms)
        return expire(self, now_ms)

    def watch_archive(self: SharePartition, first: int, last: int) -> None:
        checker.archived(self, first, last)
        archive(self, first, last)

    changed: list[tuple[type, str, Any, Any]] = [
        (SharePartitions, "_on_loaded", loaded, watch_loaded),
        (SharePartitions, "flush", flush, watch_flush),
        (SharePartitions, "acquire", acquire, watch_acquire),
        (SharePartitions, "acknowledge", answer, watch_answer),
        (SharePartition, "acknowledge", acknowledge, watch_acknowledge),
        (SharePartition, "release", release, watch_release),
        (SharePartition, "expire", expire, watch_expire),
        (SharePartition, "archive", archive, watch_archive),
        (SharePersister, "write", write, watch_write),
    ]
    for owner, name, _, new in changed:
        setattr(owner, name, new)
    try:
        yield
    finally:
        for owner, name, old, _ in changed:
            setattr(owner, name, old)
