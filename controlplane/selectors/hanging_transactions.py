"""Hanging transactions: those that are open in a partition although no coordinator will end them.

Invariants: a search waits at most a few seconds, and names the brokers that did not respond. A transaction is reported as hanging only if every
coordinator has answered and the transaction is still open after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from brokerd.cluster.model import TRANSACTION_STATE_TOPIC
from controlplane.clients import transactions as client
from controlplane.clients.all_brokers import BrokerAddress, BrokerResponse
from controlplane.clients.connection import KafkaConnection
from controlplane.domain.transactions import (
    DescribedTransaction,
    PartitionTransaction,
    TransactionVerdict,
    probe_ids,
    verdict,
)
from controlplane.models import ObservedPartition
from controlplane.selectors import transactions as selectors

SCANNED_PARTITIONS_MAX = 10_000
"""Maximum number of partitions of one search for hanging transactions. A larger search runs topic by topic."""


@dataclass(frozen=True, slots=True)
class HangingRow:
    """A transaction that is open in a partition. `verdict`: why it hangs, or undetermined. `last_timestamp`: of its last batch. `target`: identifies it
    in a proposal of kind transaction.abort."""

    topic: str
    index: int
    leader: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: datetime | None
    transactional_id: str | None
    verdict: str
    target: str

    @property
    def is_undetermined(self) -> bool:
        return self.verdict == TransactionVerdict.UNDETERMINED


@dataclass(frozen=True, slots=True)
class HangingScan(selectors.BrokerCoverage):
    """A search for hanging transactions. `open_count`: transactions that are open in the described partitions, hanging or not. `partitions_skipped`: the
    partitions above the limit of one search. `partitions_offline`: without a leader."""

    rows: list[HangingRow]
    open_count: int
    partitions: int
    partitions_described: int
    partitions_skipped: int
    partitions_offline: int
    timeout_ms_max: int | None
    brokers_asked: int
    brokers_silent: list[selectors.SilentBroker]
    offline_partitions: int

    @property
    def hanging_count(self) -> int:
        """Those of the rows that hang. An undetermined one may be active."""
        return sum(1 for r in self.rows if not r.is_undetermined)


def search(topic: str = "", index: int | None = None, start_offset: int | None = None) -> HangingScan:
    """The transactions that hang in the partitions of `topic`, or of one of them; without a topic in all partitions. `start_offset`: only the
    transaction that begins there, also if it does not hang."""
    given = {"topic__name": topic or None, "index": index}
    rows = ObservedPartition.objects.filter(**{k: v for k, v in given.items() if v is not None}).order_by(
        "topic__name", "index"
    )
    total, leaders = rows.count(), dict[int, dict[str, list[int]]]()
    for name, i, leader in rows.values_list("topic__name", "index", "leader")[:SCANNED_PARTITIONS_MAX]:
        leaders.setdefault(-1 if leader is None else leader, {}).setdefault(name, []).append(i)
    offline = sum(map(len, leaders.pop(-1, {}).values()))
    brokers = selectors.living_brokers()
    scans = selectors.scan_leaders(brokers, leaders)
    found = [t for a in scans if a.value for t in a.value.transactions]
    if start_offset is not None:
        found = [t for t in found if t.start_offset == start_offset]
    judged, coordinators, timeout_ms_max, offline_state = _judge(found, brokers)
    checked = _still_open(judged, brokers)
    silent = {s.broker_id: s for s in (*selectors.silent_brokers(scans), *selectors.silent_brokers(coordinators))}
    return HangingScan(
        rows=[_hanging_row(*j) for j in checked if j[1] is not TransactionVerdict.ACTIVE or start_offset is not None],
        open_count=len(found),
        partitions=total,
        partitions_described=sum(a.value.described for a in scans if a.value),
        partitions_skipped=max(0, total - SCANNED_PARTITIONS_MAX),
        partitions_offline=offline,
        timeout_ms_max=timeout_ms_max,
        brokers_asked=len({a.broker_id for a in scans} | {a.broker_id for a in coordinators}),
        brokers_silent=sorted(silent.values(), key=lambda s: s.broker_id),
        offline_partitions=offline_state,
    )


def open_in_partition(topic: str, index: int, start_offset: int) -> PartitionTransaction | None:
    """The transaction that is open at this offset, as the leader of the partition describes it now; None if it has ended. Raises LookupError if the
    leader is unknown or does not respond."""
    leader = ObservedPartition.objects.filter(topic__name=topic, index=index).values_list("leader", flat=True).first()
    if leader is None:
        raise LookupError(f"{topic}-{index} has no leader")
    (response,) = selectors.scan_leaders(selectors.living_brokers(), {leader: {topic: [index]}})
    if response.value is None or response.value.described == 0:
        raise LookupError(response.problem or f"broker {leader} has no replica of {topic}-{index}")
    return next((t for t in response.value.transactions if t.start_offset == start_offset), None)


Judged = tuple[PartitionTransaction, TransactionVerdict, str | None]
"""A transaction of a partition, its verdict, and its transactional id if a coordinator has one."""


@dataclass(frozen=True, slots=True)
class CoordinatorResponse:
    """The transactional ids with certain producer ids at one broker. `partitions`: the partitions of __transaction_state that the broker coordinated
    before and after it listed them, so the list has all of these partitions."""

    timeout_ms_max: int
    described: list[DescribedTransaction]
    partitions: frozenset[int]


def _judge(
    open_transactions: list[PartitionTransaction], brokers: Mapping[int, BrokerAddress]
) -> tuple[list[Judged], list[BrokerResponse[CoordinatorResponse]], int | None, int]:
    """(verdicts, responses of the coordinators, transaction.max.timeout.ms, offline partitions of __transaction_state)."""
    offline = selectors.offline_partitions_of_state()
    if not open_transactions:
        return [], [], None, offline
    producer_ids = sorted({t.producer_id for t in open_transactions})
    count = ObservedPartition.objects.filter(topic__name=TRANSACTION_STATE_TOPIC).count()
    probes = probe_ids(count)

    def call_coordinator(connection: KafkaConnection, broker_id: int) -> CoordinatorResponse:
        before = client.coordinated_partitions(connection, probes)
        listed = client.list_transactions(connection, broker_id, producer_ids=producer_ids)
        described = client.describe_transactions(connection, [t.transactional_id for t in listed]) if listed else []
        after = client.coordinated_partitions(connection, probes)
        return CoordinatorResponse(client.timeout_ms_max(connection, broker_id), described, before & after)

    responses = selectors.call_all(brokers, call_coordinator)
    # While a coordinator moves, two brokers may answer for it. An open transaction counts more than a closed one.
    known = {d.producer_id: d for a in responses if a.value for d in a.value.described}
    known |= {d.producer_id: d for a in responses if a.value for d in a.value.described if d.is_open}
    maxima = [a.value.timeout_ms_max for a in responses if a.value]
    covered = frozenset[int]().union(*(a.value.partitions for a in responses if a.value))
    complete = count > 0 and len(covered) == count and not selectors.silent_brokers(responses) and not offline
    now_ms = selectors.clock_ms()
    judged: list[Judged] = []
    for t in open_transactions:
        mine = known.get(t.producer_id)
        v = verdict(t, mine, all_responded=complete, now_ms=now_ms, timeout_ms_max=max(maxima, default=0))
        judged.append((t, v, mine.transactional_id if mine is not None else None))
    return judged, responses, max(maxima, default=None), offline


def verdicts(open_transactions: list[PartitionTransaction], brokers: Mapping[int, BrokerAddress]) -> list[Judged]:
    """Return the transactions of `open_transactions` that are still open, with their verdicts."""
    return _still_open(_judge(open_transactions, brokers)[0], brokers)


def _still_open(judged: list[Judged], brokers: Mapping[int, BrokerAddress]) -> list[Judged]:
    """Drop transactions that ended before the coordinators answered, because they do not hang. Active transactions are not requested again."""
    suspects = [j for j in judged if j[1] is not TransactionVerdict.ACTIVE]
    leaders: dict[int, dict[str, list[int]]] = {}
    for transaction, _, _ in suspects:
        indexes = leaders.setdefault(transaction.leader, {}).setdefault(transaction.topic, [])
        if transaction.index not in indexes:
            indexes.append(transaction.index)
    responses = {a.broker_id: a.value for a in selectors.scan_leaders(brokers, leaders)}
    out = [j for j in judged if j[1] is TransactionVerdict.ACTIVE]
    for transaction, v, name in suspects:
        again = responses.get(transaction.leader)
        if again is not None and any(transaction.same_as(other) for other in again.transactions):
            out.append((transaction, v, name))
        elif again is None or again.described < sum(map(len, leaders[transaction.leader].values())):
            out.append((transaction, TransactionVerdict.UNDETERMINED, name))
    return out


def _hanging_row(
    transaction: PartitionTransaction, verdict: TransactionVerdict, transactional_id: str | None
) -> HangingRow:
    return HangingRow(
        topic=transaction.topic,
        index=transaction.index,
        leader=transaction.leader,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        coordinator_epoch=transaction.coordinator_epoch,
        start_offset=transaction.start_offset,
        last_timestamp=selectors.time_of(transaction.last_timestamp_ms),
        transactional_id=transactional_id,
        verdict=verdict,
        target=transaction.target,
    )
