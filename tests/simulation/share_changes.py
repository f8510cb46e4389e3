"""Worlds of a share group whose log and offsets change: producers and transactions write, a client deletes records, and an operator changes the start
offsets while the members are away, under the faults of `run`. `python -m tests.simulation --share-changes`.

The group reads with read_committed. In every second world it has dead letters. The rules are in `share_checker`; in addition, each record of a committed
transaction has the same end as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from brokerd.wire.apis import ApiKey
from brokerd.wire.messages import AlterShareGroupOffsetsRequest, DeleteRecordsRequest, FindCoordinatorRequest
from tests.simulation import exactly_once
from tests.simulation.archive import Archive
from tests.simulation.checkers import History, Violation, logs_agree
from tests.simulation.clients import Client, Producer
from tests.simulation.cluster import Cluster
from tests.simulation.decided_records import Content, DecidedRecords
from tests.simulation.fault_injector import FaultInjector, FaultKinds
from tests.simulation.run import RECOVERY_S_MAX, leader_replica
from tests.simulation.share_checker import ShareChecker
from tests.simulation.share_members import ShareMember
from tests.simulation.shares import (
    DELIVERIES_MAX,
    EARLIEST,
    GROUP,
    LOCK_MS,
    MEMBERS,
    PARTITIONS,
    SETTINGS,
    TOPIC,
    WITH_LETTERS,
    configure,
    end_deliveries,
    end_offsets,
    judge_letters,
    share_cluster,
    stored_start,
    want_dead_topic,
)
from tests.simulation.transactors import Ledger, Place, Transactor
from tests.simulation.world import MS, S, World

COMMITTED = {"share.isolation.level": "read_committed"}
DELETE_MS, CHANGE_MS, CHANGE_MS_MAX = (500, 2_500), (2_000, 6_000), 12_000
"""Pauses between deletions, between changes of the start offsets, and the time after which a change is given up."""
TRY_MS = 200
BACK, AHEAD = 30, 10
"""A start offset is moved by at most so many records."""


class TaskTransactor(Transactor):
    topic = TOPIC

    def value_of(self, place: Place, index: int) -> bytes:
        """Another one for each partition."""
        return b"%s:%d" % (super().value_of(place, index), place[1])


class TaskClient(Client):
    """Knows the committed offsets from the archive."""

    def __init__(self, cluster: Cluster, checker: ShareChecker, name: str) -> None:
        super().__init__(cluster, name)
        self.checker, self.idle = checker, False
        self.enter(self.wait)

    def wait(self) -> None:
        raise NotImplementedError

    def near_start(self, partition: int, back: int, ahead: int) -> int | None:
        """An offset near the start offset of the group. None: no broker knows it."""
        topic, archive = self.cluster.image.topic_named(TOPIC), self.cluster.archive
        assert topic is not None and archive is not None
        start = stored_start(self.cluster, partition)
        if start is None:
            return None
        found = max(0, start + self.world.between(-back, ahead))
        return min(found, archive.end_offset(TopicPartition(topic.topic_id, partition)))


class Deleter(TaskClient):
    def wait(self) -> None:
        if self.stopped:
            self.idle = True
        else:
            self.call_later(self._delete, self.world.between(*DELETE_MS))

    def _delete(self) -> None:
        partition = self.world.between(0, PARTITIONS - 1)
        offset, leader = self.near_start(partition, BACK, AHEAD), self.leaders.get((TOPIC, partition))
        if leader is None or offset is None:
            self.refresh(self.wait)
            return
        self.checker.deleted[partition] = max(offset, self.checker.deleted[partition])

        def on_response(response: Any) -> None:
            part = response.topics[0].partitions[0] if response is not None else None
            if part is None or part.error_code:
                self.leaders.clear()
            elif part.low_watermark < offset:
                raise Violation(f"{partition}: deleted up to {offset}, but the log starts at {part.low_watermark}")
            else:
                self.world.reached["records deleted"] += 1
            self.wait()

        r = DeleteRecordsRequest
        part = r.DeleteRecordsPartition(partition_index=partition, offset=offset)
        body = r(topics=[r.DeleteRecordsTopic(name=TOPIC, partitions=[part])], timeout_ms=2_000)
        self.send_request(leader, ApiKey.DELETE_RECORDS, 2, body, on_response)


class Operator(TaskClient):
    """Stops the members, changes start offsets until the change is confirmed, and starts the members again."""

    def __init__(self, cluster: Cluster, checker: ShareChecker, members: Sequence[ShareMember]) -> None:
        self.members = members
        self.starts: dict[int, int] = {}
        self.until_us = 0
        super().__init__(cluster, checker, "operator")

    def wait(self) -> None:
        for member in self.members:
            member.away = False
        if self.stopped:
            self.idle = True
        else:
            self.call_later(self._begin, self.world.between(*CHANGE_MS))

    def _begin(self) -> None:
        chosen = {p: self.near_start(p, BACK, AHEAD) for p in range(PARTITIONS) if self.world.chance(0.7)}
        self.starts = {p: start for p, start in chosen.items() if start is not None}
        self.until_us = self.world.now_us + CHANGE_MS_MAX * MS
        if not self.starts:
            self.wait()
            return
        for member in self.members:
            member.away = True
        self._find()

    def _find(self) -> None:
        if self.stopped or self.world.now_us > self.until_us:
            self.world.reached["change of start offsets given up"] += 1
            self.wait()
            return

        def on_response(response: Any) -> None:
            if response is None or response.error_code:
                self.call_later(self._find, TRY_MS)
            else:
                self._alter(response.node_id)

        any_broker = self.world.rng.choice(list(self.cluster.brokers))
        body = FindCoordinatorRequest(key=GROUP, key_type=0)
        self.send_request(any_broker, ApiKey.FIND_COORDINATOR, 2, body, on_response)

    def _alter(self, coordinator: int) -> None:
        r = AlterShareGroupOffsetsRequest
        part = r.AlterShareGroupOffsetsRequestPartition
        parts = [part(partition_index=p, start_offset=start) for p, start in self.starts.items()]
        topic = r.AlterShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=parts)

        def on_response(response: Any) -> None:
            done = response is not None and not response.error_code
            if not done or any(p.error_code for t in response.responses for p in t.partitions):
                self.call_later(self._find, TRY_MS)
            else:
                self.world.reached["start offsets changed"] += 1
                self.wait()

        body = r(group_id=GROUP, topics=[topic])
        self.send_request(coordinator, ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, body, on_response)


def undeliverable(cluster: Cluster, decided: DecidedRecords) -> set[tuple[int, int]]:
    """(partition, offset) of markers and aborted records. Every transaction is decided."""
    topic = cluster.image.topic_named(TOPIC)
    assert topic is not None
    found = set[tuple[int, int]]()
    for p in range(cluster.topics[TOPIC].partitions):
        contents = decided.records_of(TopicPartition(topic.topic_id, p))
        if Content.UNDECIDED in contents.values():
            raise Violation(f"{TOPIC}-{p}: a transaction is undecided at the end")
        found |= {(p, offset) for offset, content in contents.items() if content is not Content.RECORD}
    return found


def live(world: World, history: History, faults_s: float, faults_max: int | None) -> None:
    fault_kinds, kind = FaultKinds.draw(world), world.rng.choice((1, 2))
    world.deliver(f"fault kinds: {fault_kinds}; transactions of kind {kind}")
    with_letters = world.seed % 2 == 1
    checker = ShareChecker(world, LOCK_MS, DELIVERIES_MAX, dead_letters=with_letters)
    with share_cluster(world, checker, {**SETTINGS, **exactly_once.SETTINGS}) as (cluster, counted):
        cluster.archive = Archive(cluster, (TOPIC,))
        checker.decided = DecidedRecords(cluster.archive)
        small = {"segment_bytes": world.rng.choice(("4096", "65536"))}
        for name in (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC):
            cluster.want_topic(name, 1, 3, min_insync_replicas="2", cleanup_policy="compact", **small)
        cluster.want_topic(SHARE_STATE_TOPIC, 2, 3, min_insync_replicas="2", retention_ms="-1", **small)
        if with_letters:
            want_dead_topic(cluster, **small)
        topic_id = cluster.want_topic(TOPIC, PARTITIONS, 3, min_insync_replicas="2", **small)
        cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
        configure(cluster, {**(WITH_LETTERS if with_letters else EARLIEST), **COMMITTED})
        producers = [Producer(cluster, history, f"p{p}", TOPIC, p, 600) for p in range(PARTITIONS)]
        transactors = [TaskTransactor(cluster, Ledger(), f"t{n}", f"id-{n}", kind) for n in "ab"]
        members = [ShareMember(cluster, history, checker, f"m{n}", GROUP, TOPIC, topic_id) for n in range(MEMBERS)]
        world.run(world.now_us + 1 * S)
        deleter, operator = Deleter(cluster, checker, "deleter"), Operator(cluster, checker, members)
        injector = FaultInjector(cluster, history, fault_kinds, faults_max)
        injector.run(faults_s)
        cluster.run_until(cluster.is_settled, RECOVERY_S_MAX, "all replicas in sync after the last fault")
        clients = [*producers, *transactors, deleter, operator]
        for client in clients:
            client.stopped = True
        cluster.run_until(lambda: all(c.idle for c in clients), 40, "the last responses to the clients")
        for member in members:
            member.calm = True
        places = [(TOPIC, p) for p in range(PARTITIONS)]
        cluster.run_until(
            lambda: all(exactly_once.is_decided(cluster, place) for place in places),
            exactly_once.DECIDED_S,
            "every transaction to be decided",
        )
        end_deliveries(cluster, members)
        logs_agree(cluster, but=(GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC))
        cluster.archive.check_logs()
        starts = {p: leader_replica(cluster, TOPIC, p).start_offset for p in range(PARTITIONS)}
        checker.verify(end_offsets(cluster), starts, undeliverable(cluster, checker.decided))
        if with_letters:
            judge_letters(cluster, checker, counted)
        world.reached["records of the share group"] += sum(end_offsets(cluster).values())
