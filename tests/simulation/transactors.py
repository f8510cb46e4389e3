"""Transactional clients in a world, and the invariants of their transactions.

A `Transactor` writes numbered transactions over two partitions and commits or aborts them; sometimes its process restarts with the same id while the old
one continues, unaware (a zombie). A `Carrier` reads one partition with read_committed and writes each record to another one, with its offset in the same
transaction. `verify`: committed transactions are visible completely and once, aborted ones never, unknown ones completely or not at all; every
source record is carried exactly once, in order; no reader saw an undecided record. Does not check the order between different producers
(there is none).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from brokerd.cluster.model import TopicPartition
from brokerd.wire import end_transaction_marker, records
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FetchRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    OffsetFetchRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from brokerd.wire.records import Record
from tests.simulation.checkers import Violation, read_bytes
from tests.simulation.clients import Client
from tests.simulation.cluster import Cluster

Place = tuple[str, int]
LEDGER, SOURCE, COPY = "ledger", "source", "copy"
GROUP, TRANSACTIONS = 0, 1
RETRY_MS = 60
TRIES_MAX = 60
"""After this many attempts at one step a producer gives its transaction up and starts again."""
E = ErrorCode
RETRIABLE = {
    E.NOT_ENOUGH_REPLICAS,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    E.NOT_LEADER_OR_FOLLOWER,
    E.REQUEST_TIMED_OUT,
    E.UNKNOWN_TOPIC_OR_PARTITION,
    E.CONCURRENT_TRANSACTIONS,
    E.COORDINATOR_LOAD_IN_PROGRESS,
    E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_COORDINATOR,
    E.KAFKA_STORAGE_ERROR,
    E.LEADER_NOT_AVAILABLE,
    E.NETWORK_EXCEPTION,
    E.UNSTABLE_OFFSET_COMMIT,
}


@dataclass
class Attempt:
    """One transaction as its producer knows it. `outcome`: True committed, False aborted, None unknown."""

    values: dict[Place, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    commit_asked: bool = False
    outcome: bool | None = None

    @property
    def reported_outcome(self) -> bool | None:
        return self.outcome if self.outcome is not None or self.commit_asked else False


@dataclass
class Ledger:
    """Common state of all transactors, and the records of the readers: {partition: {offset: value}}."""

    attempts: list[Attempt] = field(default_factory=list)
    seen: dict[Place, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    commits: int = 0
    aborts: int = 0
    fenced: int = 0
    carried: int = 0


class Transactional(Client):
    """A producer with one transactional id: step by step, each request retried until it is answered."""

    def __init__(self, cluster: Cluster, ledger: Ledger, name: str, transactional_id: str, kind: int) -> None:
        super().__init__(cluster, name)
        self.ledger, self.transactional_id, self.kind = ledger, transactional_id, kind
        # With transactions v1 all transactions of a producer have one epoch: a late end request ends the next transaction (KAFKA-17754).
        self.abortive = kind < 2
        self.producer_id = self.epoch = -1
        self.sequences: dict[Place, int] = {}
        self.coordinators: dict[tuple[int, str], int] = {}
        self.attempt: Attempt | None = None
        self.added: set[Place] = set()
        self.life_number = 0
        self.gone = False
        self.idle = False
        self.enter(self.restart)

    # -- requests with retries -------------------------------------------------------------------------------------------
    def persist(
        self,
        where: Callable[[], int | None],
        key: int,
        version: int,
        body: Callable[[], Any],
        error_of: Callable[[Any], int],
        done: Callable[[Any, int], None],
        tries: int = 0,
    ) -> None:
        """Sends the request to `where()` until the response has no retriable error; then `done(body, error)`."""
        life = self.life_number

        def retry() -> None:
            if self.life_number == life and not self.gone:
                self.persist(where, key, version, body, error_of, done, tries + 1)

        if tries > TRIES_MAX and not self.stopped:
            self.give_up()
            return
        target = where()
        if target is None:
            self.call_later(retry, RETRY_MS)
            return

        def on_response(response: Any) -> None:
            if self.life_number != life or self.gone:
                return
            error = error_of(response) if response is not None else None
            if response is None or error in RETRIABLE:
                self.leaders.clear()
                self.coordinators.clear()
                self.refresh(lambda: self.call_later(retry, RETRY_MS))
                return
            assert error is not None
            done(response, error)

        self.send_request(target, key, version, body(), on_response)

    def coordinator(self, kind: int, key: str) -> int | None:
        known = self.coordinators.get((kind, key))
        if known is None:

            def on_report(response: Any) -> None:
                if response is not None and not response.coordinators[0].error_code:
                    self.coordinators[kind, key] = response.coordinators[0].node_id

            body = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            self.send_request(
                self.world.rng.choice(list(self.cluster.brokers)), ApiKey.FIND_COORDINATOR, 4, body, on_report
            )
        return known

    def own_coordinator(self) -> int | None:
        return self.coordinator(TRANSACTIONS, self.transactional_id)

    # -- the protocol ------------------------------------------------------------------------------------------------------
    def restart(self) -> None:
        """Starts like a new process: the coordinator aborts an open transaction."""
        self.life_number += 1
        self.attempt = None
        body = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=4_000)

        def on_done(response: Any, error: int) -> None:
            if error:
                raise Violation(f"{self.name}: InitProducerId failed with {E(error).name}")
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self.sequences.clear()
            self.next()

        self.persist(self.own_coordinator, ApiKey.INIT_PRODUCER_ID, 4, lambda: body, lambda a: a.error_code, on_done)

    def give_up(self) -> None:
        self.restart()

    def next(self) -> None:
        raise NotImplementedError

    def on_rejected(self, what: str, error: int) -> None:
        """A fatal error: fenced by a newer producer, or timed out, or the transaction must be aborted."""
        self.ledger.fenced += 1
        self.world.reached["transaction rejected"] += 1
        self.attempt = None
        if error not in (
            E.INVALID_PRODUCER_EPOCH,
            E.PRODUCER_FENCED,
            E.INVALID_TXN_STATE,
            E.TRANSACTION_ABORTABLE,
            E.INVALID_PRODUCER_ID_MAPPING,
            E.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ):
            raise Violation(f"{self.name}: {what} failed with {E(error).name}")
        if self.stopped:
            self.idle = True
        else:
            self.call_later(self.restart, RETRY_MS)

    def write(self, place: Place, values: list[bytes], then: Callable[[], None]) -> None:
        assert self.attempt is not None
        self.attempt.values[place] += values
        if self.kind >= 2 or place in self.added:
            self._produce(place, values, then)
            return

        def on_added(response: Any, error: int) -> None:
            if error:
                self.on_rejected("AddPartitionsToTxn", error)
            else:
                self.added.add(place)
                self._produce(place, values, then)

        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=place[0], partitions=[place[1]])
        body = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[topic],
        )

        def error_of(a: Any) -> int:
            return int(a.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

        self.persist(self.own_coordinator, ApiKey.ADD_PARTITIONS_TO_TXN, 3, lambda: body, error_of, on_added)

    def _produce(self, place: Place, values: list[bytes], then: Callable[[], None]) -> None:
        sequence = self.sequences.get(place, 0)
        data = bytes(
            records.build(
                [Record(i, self.clock().wall_ms, v, v) for i, v in enumerate(values)],
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=sequence,
                transactional=True,
            )
        )

        def body() -> ProduceRequest:
            part = ProduceRequest.PartitionProduceData(index=place[1], records=data)
            topic = ProduceRequest.TopicProduceData(name=place[0], partition_data=[part])
            return ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=2000, topic_data=[topic])

        def on_done(response: Any, error: int) -> None:
            if error and error != E.DUPLICATE_SEQUENCE_NUMBER:
                self.on_rejected("Produce", error)
                return
            self.sequences[place] = sequence + len(values)
            then()

        self.persist(
            lambda: self.leader_of(place),
            ApiKey.PRODUCE,
            12 if self.kind >= 2 else 9,
            body,
            lambda a: int(a.responses[0].partition_responses[0].error_code),
            on_done,
        )

    def leader_of(self, place: Place) -> int | None:
        known = self.leaders.get(place)
        if known is None:
            self.refresh(lambda: None)
        return known

    def end(self, commit: bool) -> None:
        attempt = self.attempt
        assert attempt is not None
        attempt.commit_asked = attempt.commit_asked or commit
        body = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )

        def on_done(response: Any, error: int) -> None:
            if error:
                self.on_rejected("EndTxn", error)
                return
            attempt.outcome = commit
            self.ledger.commits += commit
            self.ledger.aborts += not commit
            if self.kind >= 2:
                if response.producer_epoch != self.epoch or response.producer_id != self.producer_id:
                    self.sequences.clear()
                self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self.attempt = None
            self.on_ended(commit)

        self.persist(
            self.own_coordinator,
            ApiKey.END_TXN,
            5 if self.kind >= 2 else 3,
            lambda: body,
            lambda a: a.error_code,
            on_done,
        )

    def on_ended(self, commit: bool) -> None:
        self.call_later(self.next, self.world.between(1, 80))

    def begin(self) -> Attempt:
        self.added.clear()
        attempt = self.attempt = Attempt()
        self.ledger.attempts.append(attempt)
        return attempt


class Transactor(Transactional):
    topic = LEDGER
    """It has two partitions."""
    zombie_chance = 0.04
    """The chance that a zombie begins in place of a transaction."""
    zombie_delay_ms = 1_500
    """The longest time before the first write of a zombie. Only before the first write of its successor can the coordinator alone reject it."""
    number = 0
    zombies = 0
    """Seed 3079 of tails with transactions: two zombies of the same transaction wrote the same value, and one was committed."""

    def next(self) -> None:
        if self.stopped:
            self.idle = True
            return
        if self.world.chance(self.zombie_chance):
            # The process ends, or only seems to: its successor starts, and this one continues with its state.
            self.world.reached["zombie producer"] += 1
            self.zombies += 1
            Zombie(self)
            self.restart()
            return
        self.begin()
        self.number += 1
        places: list[Place] = [(self.topic, i) for i in (0, 1)]
        self.world.rng.shuffle(places)
        self._write_next(places)

    def _write_next(self, places: list[Place]) -> None:
        if not places:
            if self.world.chance(0.05):
                self.world.reached["transaction left to its time-out"] += 1
                life = self.life_number
                self.call_later(lambda: self.restart() if self.life_number == life else None, 6_000)
            else:
                self.end(self.world.chance(0.7))
            return
        place, *rest = places
        values = [self.value_of(place, i) for i in range(self.world.between(1, 3))]
        self.write(place, values, lambda: self._write_next(rest))

    def value_of(self, place: Place, index: int) -> bytes:
        return f"{self.name}:{self.number}:{index}".encode()


class Zombie(Transactional):
    """Continues one transaction of its predecessor after a while with the old epoch. It must be fenced or have no effect."""

    def __init__(self, earlier_producer: Transactor) -> None:
        self._earlier_producer = earlier_producer
        super().__init__(
            earlier_producer.cluster,
            earlier_producer.ledger,
            f"{earlier_producer.name}z{earlier_producer.number}.{earlier_producer.zombies}",
            earlier_producer.transactional_id,
            earlier_producer.kind,
        )

    def restart(self) -> None:
        earlier_producer = self._earlier_producer
        if self.producer_id >= 0:
            self.gone = True
            return
        self.producer_id, self.epoch, self.sequences = (
            earlier_producer.producer_id,
            earlier_producer.epoch,
            dict(earlier_producer.sequences),
        )
        self.call_later(self.next, self.world.between(0, earlier_producer.zombie_delay_ms))

    def next(self) -> None:
        self.begin()
        self.write((self._earlier_producer.topic, 0), [f"{self.name}:0:0".encode()], lambda: self.end(True))

    def on_rejected(self, what: str, error: int) -> None:
        self.world.reached["zombie producer fenced"] += 1
        self.gone = True

    def on_ended(self, commit: bool) -> None:
        self.gone = True


class Carrier(Transactional):
    """Reads, writes and commits the offset in one transaction."""

    source = SOURCE
    offset = 0

    def next(self) -> None:
        if self.stopped:
            self.idle = True
            return
        body = OffsetFetchRequest(
            groups=[
                OffsetFetchRequest.OffsetFetchRequestGroup(
                    group_id="carriers",
                    topics=[OffsetFetchRequest.OffsetFetchRequestTopics(name=self.source, partition_indexes=[0])],
                )
            ],
            require_stable=True,
        )

        def error_of(a: Any) -> int:
            group = a.groups[0]
            return int(group.error_code or (group.topics[0].partitions[0].error_code if group.topics else 0))

        def on_done(response: Any, error: int) -> None:
            if error:
                raise Violation(f"{self.name}: OffsetFetch failed with {E(error).name}")
            self.offset = max(0, response.groups[0].topics[0].partitions[0].committed_offset)
            self._read()

        self.persist(
            lambda: self.coordinator(GROUP, "carriers"), ApiKey.OFFSET_FETCH, 8, lambda: body, error_of, on_done
        )

    def _read(self) -> None:
        leader = self.leader_of((self.source, 0))
        if leader is None:
            self.call_later(self.next, RETRY_MS)
            return
        life = self.life_number

        def on_response(response: Any) -> None:
            if self.life_number != life:
                return
            part = response.responses[0].partitions[0] if response is not None and response.responses else None
            if part is None or part.error_code:
                self.leaders.clear()
            found = visible(part, self.offset) if part is not None and not part.error_code else []
            if not found:
                self.call_later(self.next, self.world.between(20, 200))
                return
            self._carry(found[:3])

        self.send_request(
            leader,
            ApiKey.FETCH,
            11,
            committed_fetch((self.source, 0), self.offset, self.epochs[self.source, 0]),
            on_response,
        )

    def _carry(self, found: list[Record]) -> None:
        self.begin()
        self.write((COPY, 0), [r.value or b"" for r in found], lambda: self._commit(found))

    def _commit(self, found: list[Record]) -> None:
        if self.kind >= 2:
            self._commit_offset(found)
            return
        body = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id="carriers",
        )

        def on_done(response: Any, error: int) -> None:
            if error:
                self.on_rejected("AddOffsetsToTxn", error)
            else:
                self._commit_offset(found)

        self.persist(self.own_coordinator, ApiKey.ADD_OFFSETS_TO_TXN, 3, lambda: body, lambda a: a.error_code, on_done)

    def _commit_offset(self, found: list[Record]) -> None:
        part = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=found[-1].offset + 1, committed_metadata=None
        )
        body = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id="carriers",
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=self.source, partitions=[part])],
        )

        def on_done(response: Any, error: int) -> None:
            if error:
                self.on_rejected("TxnOffsetCommit", error)
            else:
                self.end(self.world.chance(0.8))

        self.persist(
            lambda: self.coordinator(GROUP, "carriers"),
            ApiKey.TXN_OFFSET_COMMIT,
            5 if self.kind >= 2 else 3,
            lambda: body,
            lambda a: int(a.topics[0].partitions[0].error_code),
            on_done,
        )

    def on_ended(self, commit: bool) -> None:
        self.ledger.carried += commit
        super().on_ended(commit)


class CommittedReader(Client):
    """Reads one partition with read_committed and skips records of aborted transactions, like Kafka's own clients."""

    def __init__(self, cluster: Cluster, ledger: Ledger, name: str, place: Place) -> None:
        super().__init__(cluster, name)
        self.ledger, self.place, self.offset = ledger, place, 0
        self.skipped: set[int] = set()
        """Offsets that were deleted before it reached them."""
        self.enter(self._fetch)

    def _fetch(self) -> None:
        if self.stopped:
            return
        leader = self.leaders.get(self.place)
        if leader is None:
            self.refresh(lambda: self.call_later(self._fetch))
            return
        self.send_request(
            leader,
            ApiKey.FETCH,
            11,
            committed_fetch(self.place, self.offset, self.epochs[self.place]),
            self._on_response,
        )

    def _on_response(self, body: Any) -> None:
        part = body.responses[0].partitions[0] if body is not None and body.responses else None
        if (
            part is not None
            and part.error_code == E.OFFSET_OUT_OF_RANGE
            and (upto := self.next_offset(self.place, part, self.offset))
        ):
            self.skipped.update(range(self.offset, upto))
            self.offset = upto
        if part is None or part.error_code:
            self.leaders.pop(self.place, None)
            self.call_later(self._fetch)
            return
        data = bytes(part.records or b"")
        for record in visible(part, self.offset):
            known = self.ledger.seen[self.place].setdefault(record.offset, record.value or b"")
            if known != record.value:
                raise Violation(
                    f"{self.place}: offset {record.offset} was {known!r} and is {record.value!r} for a reader"
                )
        for _, header in records.batches(data):
            if header.next_offset > part.last_stable_offset:
                raise Violation(
                    f"{self.place}: a batch up to {header.last_offset} above the last stable offset {part.last_stable_offset}"
                )
            self.offset = max(self.offset, header.next_offset)
        self.call_later(self._fetch, self.world.between(1, 60))


def committed_fetch(place: Place, offset: int, epoch: int) -> FetchRequest:
    part = FetchRequest.FetchPartition(
        partition=place[1],
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        partition_max_bytes=4096,
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=300,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=0,
        session_epoch=-1,
        isolation_level=1,
        topics=[FetchRequest.FetchTopic(topic=place[0], partitions=[part])],
    )


def visible(part: Any, offset: int) -> list[Record]:
    """The records that a read_committed client takes from a response, from `offset` on."""
    aborted = sorted(part.aborted_transactions or (), key=lambda a: a.first_offset)
    data, skipping, out = bytes(part.records or b""), set[int](), list[Record]()
    for at, header in records.batches(data):
        while aborted and aborted[0].first_offset <= header.last_offset:
            skipping.add(aborted.pop(0).producer_id)
        if header.is_control:
            said = end_transaction_marker.marker_of(data, at, header)
            if said is not None and not said.commit:
                skipping.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipping):
            out += [r for r in records.records_of(data, at, header) if r.offset >= offset]
    return out


# -- judgement -------------------------------------------------------------------------------------------------------------
def decided_records(cluster: Cluster, place: Place) -> tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]:
    """([(offset, value)] committed, the same for aborted) by the markers in the leader's log, computed in the simplest way."""
    topic = cluster.image.topic_named(place[0])
    assert topic is not None
    state, tp = topic.partitions[place[1]], TopicPartition(topic.topic_id, place[1])
    replica = cluster.brokers[state.leader].broker.replica_manager.hosted[tp]
    if cluster.archive is not None:
        data = cluster.archive.batches_of(tp)
    else:
        data = read_bytes(cluster, state.leader, tp, replica.core.high_watermark)
    open_: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    committed: list[tuple[int, bytes]] = []
    aborted: list[tuple[int, bytes]] = []
    for at, header in records.batches(data):
        if header.is_control:
            said = end_transaction_marker.marker_of(data, at, header)
            (committed if said is not None and said.commit else aborted).extend(open_.pop(header.producer_id, []))
            continue
        found = [(r.offset, r.value or b"") for r in records.records_of(data, at, header)]
        if header.is_transactional:
            open_[header.producer_id] += found
        else:
            committed += found
    if open_:
        raise Violation(f"{place}: {len(open_)} transactions are undecided at the end: {list(open_.values())[:2]}")
    return sorted(committed), sorted(aborted)


def verify(cluster: Cluster, ledger: Ledger, readers: Sequence[CommittedReader], source_topic: str = SOURCE) -> None:
    stands: dict[Place, set[bytes]] = {}
    for place in ((LEDGER, 0), (LEDGER, 1), (COPY, 0), (source_topic, 0)):
        committed, _ = decided_records(cluster, place)
        values = [v for _, v in committed]
        if len(set(values)) != len(values):
            raise Violation(f"{place}: committed more than once: {[v for v in values if values.count(v) > 1][:4]}")
        stands[place] = set(values)
        seen_by = [r for r in readers if r.place == place]
        committed = [c for c in committed if not all(c[0] in r.skipped for r in seen_by)]
        if ledger.seen[place] != dict(committed):
            extra = sorted(set(ledger.seen[place].items()) - set(committed))[:3]
            missed = sorted(set(committed) - set(ledger.seen[place].items()))[:3]
            raise Violation(f"{place}: readers saw {extra} which is not committed, and did not see {missed}")
    for attempt in ledger.attempts:
        if (COPY, 0) in attempt.values:
            continue  # a record that was not carried is carried by a later transaction: checked below
        shown = {v: v in stands[place] for place, values in attempt.values.items() for v in values}
        if len(set(shown.values())) > 1:
            raise Violation(f"a transaction is visible in part: {shown}")
        if shown and attempt.reported_outcome is not None and set(shown.values()) != {attempt.reported_outcome}:
            raise Violation(
                f"a transaction that was {'committed' if attempt.reported_outcome else 'aborted'} has another outcome in the log: {shown}"
            )
    source = [v for _, v in decided_records(cluster, (source_topic, 0))[0]]
    copied = [v for _, v in decided_records(cluster, (COPY, 0))[0]]
    if copied != source[: len(copied)]:
        at = next(i for i, (a, b) in enumerate(zip(copied, [*source, b""], strict=False)) if a != b)
        raise Violation(
            f"records were not carried exactly once and in order: at {at} {copied[at : at + 3]}, not {source[at : at + 3]}"
        )
