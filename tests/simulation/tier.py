"""A partition with tiered storage in a world of late and lost messages: several brokers, leader changes, deposed leaders that continue, partial copies.

Real: the decisions of leaders, the remote log, the chain, the view (brokerd/remote). Simulated: local logs, replication, the metadata topic, the store, and
the delay of each message between them. After each step the checkers look at both tiers: every broker that may be elected could serve every committed
record that is not deleted. A follower with older metadata serves no other record, and denies none. Does not contain: brokers as processes (tests/cluster/test_tiered_storage.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from brokerd.cluster.model import Now, TopicPartition
from brokerd.remote.leader import (
    AppendRemoteMetadata,
    Copied,
    CopySegment,
    DeleteObjects,
    Effect,
    LocalLog,
    LocalSegment,
    RaiseLocalStart,
    RemoteLeader,
)
from brokerd.remote.lineage import chain_of
from brokerd.remote.remote_log import RemoteLog
from brokerd.remote.segments import MetadataChange, RemoteSegment, SegmentState, key_of
from brokerd.remote.view import FollowerView, RemoteView
from brokerd.storage.epochs import EpochCache

TP = TopicPartition(UUID(int=1), 0)
BROKERS = (1, 2, 3)
SEGMENT_RECORDS = 5
STEP_MS = 500
FOLLOWED_SHARE = 0.1
"""The share of steps after which one follower is checked. It reads metadata only then, so it is late."""
Content = tuple[int, int]
"""(leader epoch, serial number) of a record."""


class TierViolation(AssertionError):
    """A checker has found a broken promise."""


@dataclass
class LocalReplica:
    """The local log of one broker: records from `start` on."""

    broker_id: int
    start: int = 0
    records: dict[int, Content] = field(default_factory=dict)
    bases: list[int] = field(default_factory=lambda: [0])
    """Base offsets of its segments."""

    @property
    def end(self) -> int:
        return max(self.records, default=self.start - 1) + 1

    @property
    def epochs(self) -> EpochCache:
        cache = EpochCache()
        for offset in sorted(self.records):
            cache.assign(self.records[offset][0], offset)
        cache.log_end = self.end
        return cache

    def raise_start(self, offset: int) -> None:
        if offset > self.start:
            self.start = offset
            self.records = {o: c for o, c in self.records.items() if o >= offset}
            self.bases = [b for b in self.bases if b > offset] or [self.end]
            self.bases.insert(0, offset)
            self.bases = sorted(set(self.bases))

    def truncate(self, offset: int) -> None:
        self.records = {o: c for o, c in self.records.items() if o < offset}
        self.bases = [b for b in self.bases if b < offset] or [self.start]

    def closed(self) -> list[LocalSegment]:
        ends = self.bases[1:]
        return [LocalSegment(b, e, e - b) for b, e in zip(self.bases, ends, strict=False) if e > b]


@dataclass
class FollowedRemoteLog:
    """The metadata topic as read by a broker that serves consumers as a follower."""

    remote_log: RemoteLog = field(default_factory=lambda: RemoteLog(TP))
    applied: int = 0


@dataclass
class Leadership:
    """A leader epoch of a broker, which may be deposed without its knowledge."""

    leader: RemoteLeader
    replica: LocalReplica
    applied: int = 0
    """Position in the metadata topic."""


class TierWorld:
    def __init__(self, seed: int, steps: int = 400) -> None:
        self.rng, self.followers_rng = Random(seed), Random(seed)
        self.followed = {b: FollowedRemoteLog() for b in BROKERS}
        self.steps = steps
        self.now_ms = 0
        self.replicas = {b: LocalReplica(b) for b in BROKERS}
        self.topic: list[MetadataChange | None] = []
        self.store: dict[str, dict[int, Content]] = {}
        """{segment id: complete records} of the objects."""
        self.committed: dict[int, Content] = {}
        self.high_watermark = self.last_stable = 0
        self.epoch = 0
        self.serial = 0
        self.ids = 0
        self.leaderships: list[Leadership] = []
        self.late: list[Callable[[], None]] = []
        """Messages in transit."""
        self.reached: Counter[str] = Counter()
        self.quiet = False
        self.orphans: list[str] = []
        """At rest: objects without metadata. The sweep of the broker that leads the metadata partition deletes them."""
        self.elect()

    # -- world -----------------------------------------------------------------------------------------------------------------
    @property
    def current(self) -> Leadership:
        return self.leaderships[-1]

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms)

    def draw_id(self) -> str:
        self.ids += 1
        return f"s{self.ids}"

    def elect(self) -> None:
        """A clean election: every broker has all committed records. Uncommitted ones of the old leader are lost."""
        self.epoch += 1
        broker = self.rng.choice(BROKERS)
        replica = self.replicas[broker]
        replica.truncate(self.high_watermark)
        for other in self.replicas.values():
            other.truncate(self.high_watermark)
        leader = RemoteLeader(TP, self.epoch, broker, RemoteLog(TP), self.draw_id)
        self.leaderships.append(Leadership(leader, replica))
        self.reached["election"] += 1

    def produce(self) -> None:
        replica = self.current.replica
        for _ in range(self.rng.randint(1, 4)):
            self.serial += 1
            replica.records[replica.end] = (self.epoch, self.serial)
            if replica.end - replica.bases[-1] >= SEGMENT_RECORDS:
                replica.bases.append(replica.end)
        if self.rng.random() < 0.8:
            self.commit()

    def commit(self) -> None:
        leader = self.current.replica
        for other in self.replicas.values():
            if other is leader:
                continue
            for offset, content in leader.records.items():
                if offset >= other.end and offset >= other.start:
                    other.records[offset] = content
                    if offset + 1 - other.bases[-1] >= SEGMENT_RECORDS + other.broker_id:
                        other.bases.append(offset + 1)
            if self.rng.random() < 0.7:
                other.raise_start(min(leader.start, other.end))
        self.high_watermark = leader.end
        self.committed.update((o, c) for o, c in leader.records.items() if o not in self.committed)
        if self.rng.random() < 0.6:
            self.last_stable = self.high_watermark

    # -- one leadership ----------------------------------------------------------------------------------------------------------
    def read_metadata(self, it: Leadership) -> None:
        upto = len(self.topic) if self.quiet else self.rng.randint(it.applied, len(self.topic))
        for change in self.topic[it.applied : upto]:
            if change is not None and not it.leader.remote_log.apply(change):
                self.reached["state ignored"] += 1
        it.applied = upto

    def act(self, it: Leadership) -> None:
        local = LocalLog(
            it.replica.start,
            it.replica.end,
            min(self.last_stable, it.replica.end),
            it.replica.closed(),
            0,
            it.replica.epochs.end_offset_for,
            retention_bytes=60,
        )
        effects = it.leader.decide(local, self.now)
        for effect in effects:
            self.perform(it, effect)
        self.retain_locally(it)

    def retain_locally(self, it: Leadership) -> None:
        """Local retention: nothing stays that may be deleted."""
        copied = min(it.leader.view.copied_end(it.replica.start), self.high_watermark)
        bases = [b for b in it.replica.bases if b <= copied]
        if bases and bases[-1] > it.replica.start and it.replica.end > bases[-1]:
            it.replica.raise_start(bases[-1])
            self.reached["local segment deleted"] += 1

    def perform(self, it: Leadership, effect: Effect) -> None:
        match effect:
            case AppendRemoteMetadata():
                self.send(lambda: self.topic.extend(effect.changes), lossy=True, twice=True)
            case CopySegment():
                self.copy(it, effect.segment)
            case DeleteObjects():
                own_id = effect.segment.segment_id

                def delete() -> None:
                    self.store.pop(own_id, None)
                    self.send(lambda: it.leader.objects_deleted(own_id, True, self.now), lossy=False)

                if self.rng.random() < 0.2 and not self.quiet:
                    self.send(lambda: it.leader.objects_deleted(own_id, False, self.now), lossy=False)
                else:
                    self.send(delete, lossy=False)
            case RaiseLocalStart():
                it.replica.raise_start(min(effect.offset, self.high_watermark))

    def copy(self, it: Leadership, segment: RemoteSegment) -> None:
        span = range(segment.start_offset, segment.end_offset)
        if not all(o in it.replica.records for o in span):
            it.leader.copied(segment.segment_id, None, self.now)  # the local segment is gone
            return
        data = {o: it.replica.records[o] for o in span}
        epochs = EpochCache()
        for offset, content in data.items():
            epochs.assign(content[0], offset)
        result = Copied(len(data), self.now_ms, tuple(epochs.entries), 0)

        def on_stored() -> None:
            self.store[segment.segment_id] = data

            def on_response() -> None:
                if not it.leader.copied(segment.segment_id, result, self.now) or it is not self.current:
                    self.reached["copy ended after its leadership"] += 1

            self.send(on_response, lossy=False)

        def on_failed() -> None:
            if self.rng.random() < 0.5:
                self.store[segment.segment_id] = dict(list(data.items())[:1])  # a partial copy
                self.reached["partial copy"] += 1
            it.leader.copied(segment.segment_id, None, self.now)

        fails = self.rng.random() < 0.2 and not self.quiet
        self.send(on_failed if fails else on_stored, lossy=False)

    def send(self, message: Callable[[], None], *, lossy: bool, twice: bool = False) -> None:
        if lossy and not self.quiet and self.rng.random() < 0.2:
            self.reached["message lost"] += 1
            return
        self.late.append(message)
        if twice and not self.quiet and self.rng.random() < 0.1:
            self.late.append(message)

    # -- steps -------------------------------------------------------------------------------------------------------------------
    def step(self) -> None:
        self.now_ms += STEP_MS
        what = self.rng.random()
        if what < 0.3:
            self.produce()
        elif what < 0.33:
            self.elect()
        elif what < 0.34 and self.high_watermark:
            self.current.leader.requested_start = self.rng.randint(0, self.high_watermark)
        elif what < 0.65 and self.late:
            self.late.pop(self.rng.randrange(len(self.late)))()
        else:
            # A deposed leader acts until it notices, also long after the next one has begun.
            it = self.current if self.rng.random() < 0.7 else self.rng.choice(self.leaderships[-4:])
            self.read_metadata(it)
            self.act(it)
        if self.rng.random() < 0.01:
            self.compact()
        self.check()

    def compact(self) -> None:
        """Remove records whose key has a newer record, below the position of the current leader, when it has repaired the records that it ignored."""
        log, upto = self.current.leader.remote_log, self.current.applied
        if log.stale or log.start_stale or not self.current.leader.loaded:
            return
        newest = {key_of(c): i for i, c in enumerate(self.topic[:upto]) if c is not None}
        for i, change in enumerate(self.topic[:upto]):
            if change is not None and newest[key_of(change)] != i:
                self.topic[i] = None
                self.reached["record compacted"] += 1

    def run(self) -> TierWorld:
        for _ in range(self.steps):
            self.step()
        self.finish_work()
        return self

    def finish_work(self) -> None:
        """No more faults: the leader finishes its open work."""
        self.quiet = True
        self.last_stable = self.high_watermark
        self.commit()
        self.last_stable = self.high_watermark
        for _ in range(200):
            self.now_ms += 10 * STEP_MS
            self.read_metadata(self.current)
            self.act(self.current)
            while self.late:
                self.late.pop(0)()
            self.check()
        log = self.current.leader.remote_log
        unfinished = [s for s in log.segments.values() if s.state is not SegmentState.COPY_FINISHED]
        if unfinished or log.stale:
            raise TierViolation(f"unfinished segments at rest: {unfinished} {log.stale}")
        missing = [s for s in log.segments if s not in self.store]
        if missing:
            raise TierViolation(f"finished segments without objects: {missing}")
        chain = self.current.leader.view.chain
        closed = self.current.replica.closed()
        if closed and chain.end < closed[-1].end_offset:
            raise TierViolation(f"segments up to {closed[-1].end_offset} are not copied, only up to {chain.end}")
        self.orphans = sorted(set(self.store) - set(log.segments))

    # -- checkers ------------------------------------------------------------------------------------------------------------------
    def check(self) -> None:
        log = RemoteLog(TP)
        for change in self.topic:
            if change is not None:
                log.apply(change)
        for replica in self.replicas.values():
            self.check_served(log, replica)
            if self.followers_rng.random() < FOLLOWED_SHARE:
                self.check_followed(log, replica, self.followed[replica.broker_id])
        for segment in log.in_state(SegmentState.COPY_FINISHED):
            if segment.end_offset > self.last_stable:
                raise TierViolation(f"{segment} is above the last stable offset {self.last_stable}")

    def check_followed(self, log: RemoteLog, replica: LocalReplica, followed: FollowedRemoteLog) -> None:
        """If consumers read from `replica` now, as a follower with the metadata that it has read, none of them would lose a record."""
        upto = self.followers_rng.randint(followed.applied, len(self.topic))
        for change in self.topic[followed.applied : upto]:
            if change is not None:
                followed.remote_log.apply(change)
        followed.applied = upto
        if replica.start <= log.log_start:
            return
        view = FollowerView()
        view.loaded, view.log_start = True, followed.remote_log.log_start
        view.chain = chain_of(list(followed.remote_log.segments.values()), replica.epochs.end_offset_for)
        for offset in range(log.log_start, min(replica.start, self.high_watermark)):
            if not view.reaches_below(replica.start) or offset < view.start_offset(replica.start):
                raise TierViolation(
                    f"follower {replica.broker_id} denies record {offset}: local from {replica.start}, chain "
                    f"{view.chain.start}..{view.chain.end}, log start {view.log_start}"
                )
            found = view.chain.from_offset(offset)
            content = self.store.get(found[0].segment_id, {}).get(offset) if found else None
            if content is None:
                self.reached["follower asks its leader"] += 1
            elif content != self.committed[offset]:
                raise TierViolation(f"follower {replica.broker_id} serves another record at {offset}: {found[0]}")
            else:
                self.reached["follower serves a remote record"] += 1

    def check_served(self, log: RemoteLog, replica: LocalReplica) -> None:
        """If `replica` were elected now and had read all metadata, it could serve every committed record that is not deleted."""
        view = RemoteView()
        view.loaded, view.log_start = True, log.log_start
        view.chain = chain_of(list(log.segments.values()), replica.epochs.end_offset_for)
        for offset in range(log.log_start, self.high_watermark):
            content = self.committed[offset]
            if offset >= replica.start:
                if replica.records.get(offset) != content:
                    raise TierViolation(f"broker {replica.broker_id} lacks the local record {offset}")
                continue
            if offset < view.start_offset(replica.start):
                raise TierViolation(
                    f"record {offset} is hidden on broker {replica.broker_id}: local from {replica.start}, chain "
                    f"{view.chain.start}..{view.chain.end}, log start {log.log_start}"
                )
            found = view.chain.from_offset(offset)
            if not found or self.store.get(found[0].segment_id, {}).get(offset) != content:
                raise TierViolation(
                    f"record {offset} is neither local on broker {replica.broker_id} nor remote: {found[:1]}"
                )
