"""Transactions, read from their coordinators, because no other process knows them.

Invariants: a read waits at most a few seconds, and a response names the brokers that did not respond. A page describes only its own rows.
Does not contain: the search for hanging transactions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import TypeVar

from brokerd.cluster.model import TRANSACTION_STATE_TOPIC
from controlplane.clients import transactions as client
from controlplane.clients.all_brokers import BrokerAddress, BrokerResponse, call_brokers
from controlplane.clients.connection import KafkaConnection
from controlplane.domain.times import utc_of_ms
from controlplane.domain.transactions import (
    ALL_OPEN,
    MINUTE_MS,
    OPEN_STATES,
    DescribedTransaction,
    ListedTransaction,
)
from controlplane.models import Broker, ObservedPartition
from controlplane.selectors.paging import Page, PageStart, ordered_page

PARTITIONS_SHOWN_MAX = 500
"""Maximum number of partitions on the page of one transactional id."""

COLUMNS = ("transactional_id", "state", "producer_id", "coordinator")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SilentBroker:
    """A broker that did not respond, and the reason."""

    broker_id: int
    problem: str


class BrokerCoverage:
    """Number of brokers that answered a request that needs several brokers."""

    __slots__ = ()
    brokers_asked: int
    brokers_silent: list[SilentBroker]

    @property
    def brokers_responded(self) -> int:
        return self.brokers_asked - len(self.brokers_silent)


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """The values that only a description has are null if the coordinator did not answer the second request. `open_s`: seconds since the start of the
    open transaction, null if none is open. `partitions`: in the open transaction."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int
    producer_epoch: int | None
    timeout_ms: int | None
    open_s: float | None
    partitions: list[str]

    @property
    def is_overdue(self) -> bool:
        """Return whether the transaction is open for longer than its timeout."""
        return self.overdue_s > 0

    @property
    def overdue_s(self) -> float:
        """Seconds since its timeout, 0 before."""
        return 0.0 if self.open_s is None or self.timeout_ms is None else max(0.0, self.open_s - self.timeout_ms / 1000)


@dataclass(frozen=True, slots=True)
class TransactionPage(Page[TransactionRow], BrokerCoverage):
    """A page of transactional ids. `brokers_asked` and `brokers_silent`: the page lacks the transactional ids of silent brokers. `offline_partitions`:
    partitions of __transaction_state without a leader; their transactional ids are missing, too."""

    rows: list[TransactionRow]
    brokers_asked: int
    brokers_silent: list[SilentBroker]
    offline_partitions: int


@dataclass(frozen=True, slots=True)
class TransactionPartition:
    """A partition of an open transaction. `start_offset`: of its first record there, null without a record or if the leader did not respond."""

    topic: str
    index: int
    leader: int | None
    start_offset: int | None
    last_timestamp: datetime | None


@dataclass(frozen=True, slots=True)
class TransactionDetail(BrokerCoverage):
    """One transactional id. `row` null: no coordinator that answered has it. `started_at` null: no transaction is open. `partition_count`: of all;
    `partitions` has at most 500."""

    transactional_id: str
    row: TransactionRow | None
    started_at: datetime | None
    partitions: list[TransactionPartition]
    partition_count: int
    brokers_asked: int
    brokers_silent: list[SilentBroker]
    offline_partitions: int


def transaction_list(
    *,
    query: str = "",
    state: str = "",
    open_longer_minutes: int | None = None,
    sort: str = "transactional_id",
    page: PageStart = 1,
    per_page: int = 50,
) -> TransactionPage:
    """Transactional ids whose name contains `query`. `state`: one of CoordinatorState, or "open". `open_longer_minutes`: only those whose transaction is
    open for longer."""
    states: tuple[str, ...] = OPEN_STATES if state == ALL_OPEN else (state,) if state else ()
    longer_ms = -1
    if open_longer_minutes is not None:
        longer_ms, states = open_longer_minutes * MINUTE_MS, tuple(s for s in states or OPEN_STATES if s in OPEN_STATES)
    brokers, offline = living_brokers(), offline_partitions_of_state()
    responses: list[BrokerResponse[list[ListedTransaction]]] = []
    if states or not state:
        responses = call_all(
            brokers, lambda c, b: client.list_transactions(c, b, states=states, open_longer_ms=longer_ms)
        )
    listed = [t for a in responses for t in a.value or [] if query.lower() in t.transactional_id.lower()]
    column = sort.lstrip("-")
    if column not in COLUMNS:
        sort = column = COLUMNS[0]
    by_id = [(attrgetter("transactional_id"), False), (attrgetter("coordinator"), False)]
    order = [(attrgetter(column), sort.startswith("-")), *by_id]
    shown, total, window = ordered_page(listed, order, page=page, per_page=per_page)
    described = _describe(shown, brokers)
    now_ms = clock_ms()
    return TransactionPage(
        rows=[_row(t, described.get((t.coordinator, t.transactional_id)), now_ms) for t in shown],
        total=total,
        window=window,
        sort=sort,
        query=query,
        brokers_asked=len(responses),
        brokers_silent=silent_brokers(responses),
        offline_partitions=offline,
    )


def transaction(transactional_id: str) -> TransactionDetail:
    """One transactional id with the partitions of its open transaction."""
    brokers, offline = living_brokers(), offline_partitions_of_state()
    responses = call_all(brokers, lambda c, b: client.describe_transactions(c, [transactional_id]))
    by_broker = {a.broker_id: a.value[0] for a in responses if a.value}
    detail = TransactionDetail(transactional_id, None, None, [], 0, len(responses), silent_brokers(responses), offline)
    if not by_broker:
        return detail
    # While the coordinator moves, two brokers may answer. The higher epoch is the newer state.
    coordinator, found = max(by_broker.items(), key=lambda pair: pair[1].producer_epoch)
    listed = ListedTransaction(transactional_id, found.producer_id, found.state, coordinator)
    return replace(
        detail,
        row=_row(listed, found, clock_ms()),
        started_at=time_of(found.started_ms) if found.is_open else None,
        partitions=_partitions_of(found, brokers),
        partition_count=len(found.partitions),
    )


def address_of_broker(broker_id: int) -> BrokerAddress | None:
    row = Broker.objects.filter(pk=broker_id, alive=True).first()
    return None if row is None else BrokerAddress(row.broker_id, row.host, row.port)


# -- requests ---------------------------------------------------------------------------------------------------------------


def living_brokers() -> dict[int, BrokerAddress]:
    rows = Broker.objects.filter(alive=True).order_by("broker_id")
    return {b.broker_id: BrokerAddress(b.broker_id, b.host, b.port) for b in rows}


def offline_partitions_of_state() -> int:
    return ObservedPartition.objects.filter(topic__name=TRANSACTION_STATE_TOPIC, leader=None).count()


def call_all(
    brokers: Mapping[int, BrokerAddress], call: Callable[[KafkaConnection, int], T]
) -> list[BrokerResponse[T]]:
    ids = {(b.host, b.port): b.broker_id for b in brokers.values()}
    return call_brokers(brokers.values(), lambda connection: call(connection, ids[connection.host, connection.port]))


def silent_brokers(responses: Iterable[BrokerResponse[T]]) -> list[SilentBroker]:
    return [SilentBroker(a.broker_id, a.problem) for a in responses if a.value is None]


def _describe(
    listed: Iterable[ListedTransaction], brokers: Mapping[int, BrokerAddress]
) -> dict[tuple[int, str], DescribedTransaction]:
    """The descriptions of these transactional ids, by coordinator and id. One request per coordinator."""
    requested: dict[int, list[str]] = {}
    for t in listed:
        requested.setdefault(t.coordinator, []).append(t.transactional_id)
    addresses = {b: brokers[b] for b in requested}
    responses = call_all(addresses, lambda c, b: client.describe_transactions(c, requested[b]))
    return {(a.broker_id, d.transactional_id): d for a in responses for d in a.value or []}


def scan_leaders(
    brokers: Mapping[int, BrokerAddress], leaders: Mapping[int, Mapping[str, list[int]]]
) -> list[BrokerResponse[client.ScannedPartitions]]:
    addresses = {b: brokers[b] for b in leaders if b in brokers}
    responses = call_all(addresses, lambda c, b: client.scan_partitions(c, b, leaders[b]))
    gone = [
        BrokerResponse[client.ScannedPartitions](b, None, "the broker is down") for b in leaders if b not in brokers
    ]
    return [*responses, *gone]


# -- shapes -----------------------------------------------------------------------------------------------------------------


def _row(listed: ListedTransaction, described: DescribedTransaction | None, now_ms: int) -> TransactionRow:
    if described is None:
        return TransactionRow(
            listed.transactional_id, listed.state, listed.producer_id, listed.coordinator, None, None, None, []
        )
    age_ms = now_ms - described.started_ms if described.is_open and described.started_ms is not None else None
    return TransactionRow(
        transactional_id=listed.transactional_id,
        state=described.state,
        producer_id=described.producer_id,
        coordinator=listed.coordinator,
        producer_epoch=described.producer_epoch,
        timeout_ms=described.timeout_ms,
        open_s=None if age_ms is None else max(0.0, age_ms / 1000),
        partitions=[f"{topic}-{i}" for topic, i in described.partitions],
    )


def _partitions_of(described: DescribedTransaction, brokers: Mapping[int, BrokerAddress]) -> list[TransactionPartition]:
    shown = described.partitions[:PARTITIONS_SHOWN_MAX]
    names = {topic for topic, _ in shown}
    rows = ObservedPartition.objects.filter(topic__name__in=names).values_list("topic__name", "index", "leader")
    leader_of = {(name, i): leader for name, i, leader in rows}
    leaders: dict[int, dict[str, list[int]]] = {}
    for topic, i in shown:
        leader = leader_of.get((topic, i))
        if leader is not None:
            leaders.setdefault(leader, {}).setdefault(topic, []).append(i)
    scans = scan_leaders(brokers, leaders)
    begun = {
        t.partition: t for a in scans if a.value for t in a.value.transactions if t.producer_id == described.producer_id
    }
    out = []
    for topic, i in shown:
        t = begun.get((topic, i))
        at = time_of(t.last_timestamp_ms) if t is not None else None
        out.append(TransactionPartition(topic, i, leader_of.get((topic, i)), t.start_offset if t else None, at))
    return out


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


def time_of(ms: int | None) -> datetime | None:
    return None if ms is None or ms < 0 else utc_of_ms(ms)
