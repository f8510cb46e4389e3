"""The rules of share groups, checked by an observer of the product: what a leader loads, delivers, accepts as acknowledged and writes.

`ShareChecker` keeps one entry per record, where the product keeps runs of offsets. Rules: a record has one holder until its lock ends or the holder gives
it up, within the time that a leader uses the same state. Each delivery has the count of the one before plus one, and no count is above the limit. A
leader writes what it did, and its start offset passes only records whose delivery has ended. A loaded state contains every write that was confirmed.
An acknowledgement is confirmed after its write. A record whose acceptance a member knows is not delivered again. With dead letters (`share_letters`), a
record whose delivery has failed in a state epoch has one from each leader that had it to write, at least one and none before the state is stored. An
accepted record has none.

With `decided` (worlds whose log changes): no member gets a marker, a record of an aborted or ongoing transaction, or a deleted record. A change of the
start offset begins a new state epoch, in which every record from the new start on is delivered again. A share session that began after the confirmation
of the change gets no record of an earlier state epoch. Records end without a delivery only because of one of these reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from brokerd.coordinator.shard import FOLLOWER_SILENCE_MS_MAX
from brokerd.coordinator.share_state.records import SharePartitionKey
from brokerd.coordinator.share_state.state import NO_START, ShareState, StateUpdate
from brokerd.replication.replica import Replica
from brokerd.sharing.delivery import Acknowledgement, AcknowledgeType, Acquired, RecordState
from brokerd.sharing.sessions import ShareSession
from brokerd.sharing.share_partition import SharePartition
from tests.simulation.checkers import Violation
from tests.simulation.decided_records import Content, DecidedRecords
from tests.simulation.share_letters import Failure, LetterChecker
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
    replica: Replica
    state_epoch: int
    start: int
    records: dict[int, Copy] = field(default_factory=dict)
    log_start: int = 0
    late: bool = False
    """The write in progress must be rejected: when it was sent, a later leader had loaded the state, or a later state epoch was confirmed."""

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
    """Implements `ShareObserver` for all brokers of a world. `lock_ms`, `deliveries_max`, `dead_letters`: the settings of the group. `decided`: in worlds with transactions or deleted records."""

    def __init__(self, world: World, lock_ms: int, deliveries_max: int, *, dead_letters: bool = False) -> None:
        self.world, self.lock_ms, self.deliveries_max = world, lock_ms, deliveries_max
        self.dead_letters = dead_letters
        self.decided: DecidedRecords | None = None
        self.deleted: Counter[int] = Counter()
        """{partition: the greatest offset to which a client has deleted records}."""
        self.state_epochs: dict[SharePartitionKey, int] = {}
        """The newest state epoch that a leader has loaded."""
        self.changed: dict[SharePartitionKey, tuple[int, int]] = {}
        """The newest confirmed state epoch, and when it was confirmed (us)."""
        self.first_required: dict[int, int] = {}
        """{partition: start offset of the newest state epoch}. The delivery of earlier offsets is not required."""
        self.letters = LetterChecker(world)
        self.leaders: dict[int, Leader] = {}
        """By the id of the product's state machine, which `machines` keeps alive."""
        self.machines: list[SharePartition] = []
        self.sessions: dict[int, tuple[ShareSession, int]] = {}
        """{id: (share session, its begin in us)}."""
        self.stored: dict[tuple[SharePartitionKey, int], ConfirmedStates] = {}
        """By share partition and state epoch."""
        self.newest: dict[SharePartitionKey, tuple[int, int]] = {}
        """The newest leader epoch that has loaded a share partition, and when (us)."""
        self.accepted: dict[Place, str] = {}
        """Records whose acceptance was confirmed to a member, and that member."""
        self.accepted_in: dict[Place, int] = {}
        """The newest state epoch in which an acceptance was confirmed."""
        self.sent_types: dict[Place, set[AcknowledgeType]] = {}
        self.deliveries_seen: dict[Place, int] = {}
        """The greatest delivery count of a record."""

    # -- loads ---------------------------------------------------------------------------------------------------------
    def initializes(self, place: SharePartitionKey, state_epoch: int, start: int) -> None:
        """A group coordinator starts a state epoch at an offset. NO_START: where the group starts."""
        self.stored.setdefault((place, state_epoch), ConfirmedStates(start, starts_sent={NO_START, start}))

    def on_initialized(self, place: SharePartitionKey, state_epoch: int) -> None:
        if state_epoch > self.changed.get(place, (-1, 0))[0]:
            self.changed[place] = state_epoch, self.world.now_us

    def _begin_state_epoch(self, place: SharePartitionKey, state: ShareState) -> None:
        if state.state_epoch <= self.state_epochs.get(place, -1):
            return
        if (
            place in self.state_epochs or state.start != NO_START
        ):  # an operator may change a start that no leader has loaded
            self.first_required[place.partition] = state.start
            for known in (self.sent_types, self.deliveries_seen):
                for at in [at for at in known if at[0] == place.partition]:
                    del known[at]
            self.world.reached["share partition loaded after a change of its start"] += 1
        self.state_epochs[place] = state.state_epoch

    def on_loaded(self, place: SharePartitionKey, replica: Replica, core: SharePartition, state: ShareState) -> None:
        if (place, state.state_epoch) not in self.stored:
            raise Violation(f"{place}: state epoch {state.state_epoch} is loaded, which nobody started")
        self._begin_state_epoch(place, state)
        stored = self.stored[place, state.state_epoch]
        if core.leader_epoch > self.newest.get(place, (-1, 0))[0]:
            self.newest[place] = core.leader_epoch, self.world.now_us
        if state.start < stored.start:
            raise Violation(f"{place}: start {state.start} is loaded after {stored.start} was confirmed")
        if state.start not in stored.starts_sent:
            raise Violation(f"{place}: start {state.start} is loaded, which no leader wrote")
        start = state.start if state.start != NO_START else core.start
        leader = Leader(place, replica, state.state_epoch, start)
        self.leaders[id(core)] = leader
        self.machines.append(core)
        found = {o: (b.state, b.deliveries) for b in state.batches for o in range(b.first, b.last + 1)}
        for offset, value in found.items():
            if value not in stored.sent.get(offset, ()):
                raise Violation(f"{place}: {value} is loaded for {offset}, which no leader wrote")
            leader.records[offset] = Copy(RecordState(value[0]), value[1])
            failure = Failure(place, state.state_epoch, offset)
            if RecordState(value[0]).final:
                self.letters.end_stored(failure)
            elif value[0] == ARCHIVING:
                self.letters.on_failure_stored(failure)
                self.letters.must_write(failure)
                self.world.reached["share partition loaded with dead letters to write"] += 1
        for offset, (was, count) in stored.confirmed.items():
            now, count_now = found.get(offset, (AVAILABLE, 0))
            lost = RecordState(was).final and now != was
            lost |= was == ARCHIVING and now not in (ARCHIVING, RecordState.ARCHIVED)
            if offset >= state.start and (lost or count_now < count):
                raise Violation(f"{place}: {offset} was stored as {(was, count)}, loaded: {(now, count_now)}")
        self.letters.start_stored(place, state.state_epoch, state.start)
        self._delete_below(leader, core.log_start)
        self.world.reached["share partition loaded"] += 1
        self.world.reached["share partition loaded with records in flight"] += bool(found)

    # -- deliveries ----------------------------------------------------------------------------------------------------
    def on_session_began(self, session: ShareSession) -> None:
        self.sessions[id(session)] = session, self.world.now_us

    def on_acquired(
        self, core: SharePartition, session: ShareSession, acquired: Sequence[Acquired], now_ms: int
    ) -> None:
        leader, member = self.leaders[id(core)], session.member_id
        newest, since_us = self.changed[leader.place]
        if leader.state_epoch < newest and self.sessions[id(session)][1] > since_us:
            raise Violation(
                f"{leader.place}: {member} joined after state epoch {newest} and gets records of {leader.state_epoch}"
            )
        for a in acquired:
            for offset in range(a.first, a.last + 1):
                place = (leader.place.partition, offset)
                record = leader.record(offset)
                self._check_content(leader, offset, member)
                if place in self.accepted and leader.state_epoch <= self.accepted_in[place]:
                    self._delivered_again(leader.place, core.leader_epoch, place, member)
                if offset < leader.start or record.state.final or record.state is ARCHIVING:
                    raise Violation(f"{place} goes to {member} after its delivery has ended: {record}")
                if record.state is ACQUIRED:
                    raise Violation(f"{place} goes to {member} at {now_ms}; another member holds it: {record}")
                if a.deliveries != record.count + 1 or a.deliveries > self.deliveries_max:
                    raise Violation(f"{place}: delivery {a.deliveries} follows {record}; limit {self.deliveries_max}")
                leader.records[offset] = Copy(ACQUIRED, a.deliveries, member, now_ms + self.lock_ms)
                self.deliveries_seen[place] = max(self.deliveries_seen.get(place, 0), a.deliveries)

    def _check_content(self, leader: Leader, offset: int, member: str) -> None:
        if self.decided is None:
            return
        if offset < leader.replica.start_offset:
            raise Violation(
                f"{leader.place}: {offset} goes to {member}; the log starts at {leader.replica.start_offset}"
            )
        if (content := self.decided.content(leader.replica, offset)) is not Content.RECORD:
            raise Violation(f"{leader.place}: {offset} goes to {member}, but is {content.value}")

    def _delivered_again(self, key: SharePartitionKey, leader_epoch: int, place: Place, member: str) -> None:
        """A deposed leader may not know that its successor delivers, for a short time."""
        epoch, since_us = self.newest[key]
        if leader_epoch == epoch or self.world.now_us > since_us + DEPOSED_MS_MAX * MS:
            raise Violation(f"{place} goes to {member}; {self.accepted[place]} knows that it is accepted")
        self.world.reached["accepted record delivered by a deposed leader"] += 1

    def on_acknowledged(self, core: SharePartition, member: str, steps: Sequence[Acknowledgement], now_ms: int) -> None:
        """The leader has accepted the acknowledgements. They are not durable yet."""
        leader = self.leaders[id(core)]
        for offset, kind in acknowledged_records(steps):
            record = leader.record(offset)
            if offset < max(leader.start, leader.log_start) or record.state.final:
                continue  # its delivery ended earlier, and the start offset has passed it, or it is deleted and waits for its dead letter
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
            self.letters.must_write(Failure(leader.place, leader.state_epoch, offset))
        self.world.reached["record archived after its last delivery"] += last

    def on_log_start_raised(self, core: SharePartition, log_start: int) -> None:
        """The leader ends the records below the log start offset."""
        if (leader := self.leaders.get(id(core))) is not None:
            self._delete_below(leader, log_start)

    def _delete_below(self, leader: Leader, log_start: int) -> None:
        if log_start > self.deleted[leader.place.partition]:
            raise Violation(f"{leader.place}: the log starts at {log_start}, and nobody deleted so many records")
        leader.log_start = max(leader.log_start, log_start)
        for offset in range(leader.start, log_start):
            record = leader.record(offset)
            if record.state in (AVAILABLE, ACQUIRED):
                self.world.reached["record deleted while a member holds it"] += record.state is ACQUIRED
                record.state, record.member = RecordState.ARCHIVED, ""
                self.world.reached["record deleted before its delivery ended"] += 1

    def _end_undeliverable(self, leader: Leader, offset: int, record: Copy) -> None:
        """A leader archives the markers and the aborted records that it finds."""
        if record.state is AVAILABLE and self.decided is not None:
            content = self.decided.content(leader.replica, offset)
            if content in (Content.MARKER, Content.ABORTED):
                record.state = RecordState.ARCHIVED
                self.world.reached[f"{content.value} passed"] += 1

    def on_archived(self, core: SharePartition, first: int, last: int) -> None:
        """The leader says that the dead letters of these records are written."""
        leader = self.leaders[id(core)]
        for offset in range(first, last + 1):
            record = leader.record(offset)
            if record.state is ARCHIVING:
                record.state = RecordState.ARCHIVED
                failure = Failure(leader.place, leader.state_epoch, offset)
                self.letters.on_letter_written(failure, leader.replica.start_offset)

    def on_released(self, core: SharePartition, member: str) -> None:
        """The share session of the member has ended."""
        for record in self.leaders[id(core)].records.values():
            if record.state is ACQUIRED and record.member == member:
                record.state, record.member, record.count = AVAILABLE, "", record.count - 1
                self.world.reached["lock ended with the session"] += 1

    def on_expired(self, core: SharePartition, now_ms: int) -> None:
        """The leader ends the locks whose time has passed."""
        leader = self.leaders[id(core)]
        for offset, record in leader.records.items():
            if record.state is ACQUIRED and record.until_ms <= now_ms:
                self._given_up(leader, offset, AVAILABLE)
                self.world.reached["lock ended by its time-out"] += 1

    def on_confirmed(self, core: SharePartition, start: int, steps: Sequence[Acknowledgement]) -> None:
        """The leader answers acknowledgements without an error. `start`: its start offset when they came, or its log start offset."""
        leader = self.leaders[id(core)]
        stored = self.stored[leader.place, leader.state_epoch]
        for offset, kind in acknowledged_records(steps):
            place = (leader.place.partition, offset)
            if kind is AcknowledgeType.ACCEPT:
                self.accepted_in[place] = max(leader.state_epoch, self.accepted_in.get(place, -1))
            if kind is AcknowledgeType.ACCEPT and offset >= start:
                # A late acceptance below the start offset is answered, too, and changes nothing.
                self.letters.accept_stored(Failure(leader.place, leader.state_epoch, offset))
            state, _ = stored.confirmed.get(offset, (AVAILABLE, 0))
            final = RecordState(state).final or offset < max(start, stored.start)
            final |= state == ARCHIVING and kind is AcknowledgeType.REJECT
            if kind in (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT) and not final:
                raise Violation(f"{leader.place}: {kind.name} of {offset} is answered before it is stored")

    # -- writes --------------------------------------------------------------------------------------------------------
    def writes(self, core: SharePartition, update: StateUpdate) -> None:
        """A leader sends a write, which describes the change of its state."""
        leader = self.leaders[id(core)]
        stored = self.stored[leader.place, leader.state_epoch]
        for offset in range(leader.start, update.start):
            record = leader.record(offset)
            self._end_undeliverable(leader, offset, record)
            if not record.state.final:
                raise Violation(
                    f"{leader.place}: start {update.start} passes {offset}, whose delivery goes on: {record}"
                )
        leader.start = max(leader.start, update.start)
        for batch in update.batches:
            for offset in range(batch.first, batch.last + 1):
                record = leader.record(offset)
                self._end_undeliverable(leader, offset, record)
                if (record.state, record.count) != (batch.state, batch.deliveries):
                    raise Violation(f"{leader.place}: {batch} is written for {offset}, which is {record}")
                stored.sent.setdefault(offset, set()).add((batch.state, batch.deliveries))
        stored.starts_sent.add(update.start)
        deposed = update.leader_epoch < self.newest[leader.place][0]
        leader.late = deposed or leader.state_epoch < self.changed[leader.place][0]

    def wrote(self, core: SharePartition, update: StateUpdate, error: int) -> None:
        """The share coordinator has answered a write."""
        if error:
            self.world.reached["share state write rejected"] += 1
            return
        leader = self.leaders[id(core)]
        place, state_epoch = leader.place, leader.state_epoch
        if leader.late:
            raise Violation(
                f"{place}: a write of leader epoch {update.leader_epoch} and state epoch {state_epoch} is stored too late"
            )
        stored = self.stored[place, state_epoch]
        stored.start = max(stored.start, update.start)
        for batch in update.batches:
            for offset in range(batch.first, batch.last + 1):
                stored.confirmed[offset] = (batch.state, batch.deliveries)
                failure = Failure(place, state_epoch, offset)
                if batch.state == ARCHIVING:
                    self.letters.on_failure_stored(failure)
                elif RecordState(batch.state).final:
                    self.letters.end_stored(failure)
        self.letters.start_stored(place, state_epoch, update.start)

    # -- members -------------------------------------------------------------------------------------------------------
    def on_acknowledgement_sent(self, place: Place, kind: AcknowledgeType) -> None:
        self.sent_types.setdefault(place, set()).add(kind)

    def on_acknowledgement_confirmed(self, place: Place, kind: AcknowledgeType, member: str) -> None:
        """A member got the response that its acknowledgement is durable."""
        self.world.reached[f"confirmed: {kind.name.lower()}"] += 1
        if kind is AcknowledgeType.ACCEPT:
            self.accepted[place] = member

    def verify(
        self, ends: Mapping[int, int], starts: Mapping[int, int], undeliverable: Set[Place] = frozenset()
    ) -> None:
        """`ends`: {partition: end offset}, `starts`: {partition: log start offset}. The delivery of every other record has ended, and for a reason."""
        for partition, end in ends.items():
            for offset in range(max(starts[partition], self.first_required.get(partition, 0)), end):
                place = (partition, offset)
                if place in undeliverable:
                    continue
                types = self.sent_types.get(place, set())
                last = self.deliveries_seen.get(place, 0) >= self.deliveries_max
                if not last and types.isdisjoint((AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)):
                    raise Violation(
                        f"{place} was delivered {self.deliveries_seen.get(place, 0)} times, then never again"
                    )


def acknowledged_records(steps: Sequence[Acknowledgement]) -> Iterator[tuple[int, AcknowledgeType]]:
    """(offset, type) of every acknowledged record."""
    for a in steps:
        for i, offset in enumerate(range(a.first, a.last + 1)):
            yield offset, AcknowledgeType(a.types[i if len(a.types) > 1 else 0])
