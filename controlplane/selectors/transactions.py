"""Transactions, read from their coordinators: only the brokers know them.

Invariants: a read waits at most a few seconds, and an answer names the brokers that did not respond. A page describes only its own rows. Without the
answer of every coordinator no transaction counts as unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from brokerd.cluster.model import TRANSACTION_STATE_TOPIC
from controlplane.clients import transactions as client
from controlplane.clients.all_brokers import BrokerAddress, BrokerAnswer, ask_brokers
from controlplane.clients.connection import KafkaConnection
from controlplane.domain.transactions import (
    ALL_OPEN,
    MINUTE_MS,
    OPEN_STATES,
    DescribedTransaction,
    ListedTransaction,
    PartitionTransaction,
    TransactionVerdict,
    probe_ids,
    verdict,
)
from controlplane.models import Broker, Partition
from controlplane.selectors.common import within

SCANNED_PARTITIONS_MAX = 10_000
"""Partitions of one search for hanging transactions. A larger search runs topic by topic."""

PARTITIONS_SHOWN_MAX = 500
"""Partitions on the page of one transactional id."""

COLUMNS = ("transactional_id", "state", "producer_id", "coordinator")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SilentBroker:
    """A broker that did not answer, and the reason."""

    broker_id: int
    problem: str


class BrokerCoverage:
    """Of an answer that needs several brokers: how many answered."""

    __slots__ = ()
    brokers_asked: int
    brokers_silent: list[SilentBroker]

    @property
    def answered(self) -> int:
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


@dataclass(frozen=True, slots=True)
class TransactionPage(BrokerCoverage):
    """A page of transactional ids. `brokers_asked` and `brokers_silent`: those of silent brokers are missing. `offline_partitions`: partitions of
    __transaction_state without a leader; their transactional ids are missing, too."""

    rows: list[TransactionRow]
    total: int
    page: int
    pages: int
    per_page: int
    sort: str
    query: str
    brokers_asked: int
    brokers_silent: list[SilentBroker]
    offline_partitions: int

    @property
    def first(self) -> int:
        return (self.page - 1) * self.per_page + 1 if self.total else 0

    @property
    def last(self) -> int:
        return min(self.page * self.per_page, self.total)


@dataclass(frozen=True, slots=True)
class TransactionPartition:
    """A partition of an open transaction. `start_offset`: of its first record there, null without a record or if the leader did not answer."""

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


@dataclass(frozen=True, slots=True)
class HangingScan(BrokerCoverage):
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
    brokers_silent: list[SilentBroker]
    offline_partitions: int


def transaction_list(
    *,
    query: str = "",
    state: str = "",
    open_longer_minutes: int | None = None,
    sort: str = "transactional_id",
    page: int = 1,
    per_page: int = 50,
) -> TransactionPage:
    """Transactional ids whose name contains `query`. `state`: one of CoordinatorState, or "open". `open_longer_minutes`: only those whose transaction is
    open for longer."""
    states: tuple[str, ...] = OPEN_STATES if state == ALL_OPEN else (state,) if state else ()
    longer_ms = -1
    if open_longer_minutes is not None:
        longer_ms, states = open_longer_minutes * MINUTE_MS, tuple(s for s in states or OPEN_STATES if s in OPEN_STATES)
    brokers, offline = living_brokers(), _offline_partitions()
    answers: list[BrokerAnswer[list[ListedTransaction]]] = []
    if states or not state:
        answers = _ask(brokers, lambda c, b: client.list_transactions(c, b, states=states, open_longer_ms=longer_ms))
    listed = [t for a in answers for t in a.value or [] if query.lower() in t.transactional_id.lower()]
    column = sort.lstrip("-")
    if column not in COLUMNS:
        sort = column = COLUMNS[0]
    listed.sort(key=lambda t: t.transactional_id)
    listed.sort(key=lambda t: getattr(t, column), reverse=sort.startswith("-"))
    page, pages, per_page = within(len(listed), page, per_page)
    shown = listed[(page - 1) * per_page : page * per_page]
    described = _described(shown, brokers)
    now_ms = _now_ms()
    return TransactionPage(
        rows=[_row(t, described.get((t.coordinator, t.transactional_id)), now_ms) for t in shown],
        total=len(listed),
        page=page,
        pages=pages,
        per_page=per_page,
        sort=sort,
        query=query,
        brokers_asked=len(answers),
        brokers_silent=_silent(answers),
        offline_partitions=offline,
    )


def transaction(transactional_id: str) -> TransactionDetail:
    """One transactional id with the partitions of its open transaction."""
    brokers, offline = living_brokers(), _offline_partitions()
    answers = _ask(brokers, lambda c, b: client.describe_transactions(c, [transactional_id]))
    by_broker = {a.broker_id: a.value[0] for a in answers if a.value}
    detail = TransactionDetail(transactional_id, None, None, [], 0, len(answers), _silent(answers), offline)
    if not by_broker:
        return detail
    # While the coordinator moves, two brokers may answer. The higher epoch is the newer state.
    coordinator, found = max(by_broker.items(), key=lambda pair: pair[1].producer_epoch)
    listed = ListedTransaction(transactional_id, found.producer_id, found.state, coordinator)
    return replace(
        detail,
        row=_row(listed, found, _now_ms()),
        started_at=_time(found.started_ms) if found.is_open else None,
        partitions=_partitions_of(found, brokers),
        partition_count=len(found.partitions),
    )


def hanging_transactions(topic: str = "", index: int | None = None, start_offset: int | None = None) -> HangingScan:
    """The transactions that hang in the partitions of `topic`, or of one of them; without a topic in all partitions. `start_offset`: only the
    transaction that begins there, also if it does not hang."""
    given = {"topic__name": topic or None, "index": index}
    rows = Partition.objects.filter(**{k: v for k, v in given.items() if v is not None}).order_by(
        "topic__name", "index"
    )
    total, leaders = rows.count(), dict[int, dict[str, list[int]]]()
    for name, i, leader in rows.values_list("topic__name", "index", "leader")[:SCANNED_PARTITIONS_MAX]:
        leaders.setdefault(-1 if leader is None else leader, {}).setdefault(name, []).append(i)
    offline = sum(map(len, leaders.pop(-1, {}).values()))
    brokers = living_brokers()
    scans = scan_leaders(brokers, leaders)
    found = [t for a in scans if a.value for t in a.value.transactions]
    if start_offset is not None:
        found = [t for t in found if t.start_offset == start_offset]
    judged, coordinators, timeout_ms_max, offline_state = _judged(found, brokers)
    checked = _still_open(judged, brokers)
    silent = {s.broker_id: s for s in (*_silent(scans), *_silent(coordinators))}
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
    leader is unknown or does not answer."""
    leader = Partition.objects.filter(topic__name=topic, index=index).values_list("leader", flat=True).first()
    if leader is None:
        raise LookupError(f"{topic}-{index} has no leader")
    (answer,) = scan_leaders(living_brokers(), {leader: {topic: [index]}})
    if answer.value is None or answer.value.described == 0:
        raise LookupError(answer.problem or f"broker {leader} has no replica of {topic}-{index}")
    return next((t for t in answer.value.transactions if t.start_offset == start_offset), None)


def address_of_broker(broker_id: int) -> BrokerAddress | None:
    row = Broker.objects.filter(pk=broker_id, alive=True).first()
    return None if row is None else BrokerAddress(row.broker_id, row.host, row.port)


# -- requests ---------------------------------------------------------------------------------------------------------------


def living_brokers() -> dict[int, BrokerAddress]:
    rows = Broker.objects.filter(alive=True).order_by("broker_id")
    return {b.broker_id: BrokerAddress(b.broker_id, b.host, b.port) for b in rows}


def _offline_partitions() -> int:
    return Partition.objects.filter(topic__name=TRANSACTION_STATE_TOPIC, leader=None).count()


def _ask(brokers: Mapping[int, BrokerAddress], call: Callable[[KafkaConnection, int], T]) -> list[BrokerAnswer[T]]:
    ids = {(b.host, b.port): b.broker_id for b in brokers.values()}
    return ask_brokers(brokers.values(), lambda connection: call(connection, ids[connection.host, connection.port]))


def _silent(answers: Iterable[BrokerAnswer[T]]) -> list[SilentBroker]:
    return [SilentBroker(a.broker_id, a.problem) for a in answers if a.value is None]


def _described(
    shown: Iterable[ListedTransaction], brokers: Mapping[int, BrokerAddress]
) -> dict[tuple[int, str], DescribedTransaction]:
    """The descriptions of these transactional ids, by coordinator and id. One request per coordinator."""
    wanted: dict[int, list[str]] = {}
    for t in shown:
        wanted.setdefault(t.coordinator, []).append(t.transactional_id)
    asked = {b: brokers[b] for b in wanted}
    answers = _ask(asked, lambda c, b: client.describe_transactions(c, wanted[b]))
    return {(a.broker_id, d.transactional_id): d for a in answers for d in a.value or []}


def scan_leaders(
    brokers: Mapping[int, BrokerAddress], leaders: Mapping[int, Mapping[str, list[int]]]
) -> list[BrokerAnswer[client.ScannedPartitions]]:
    asked = {b: brokers[b] for b in leaders if b in brokers}
    answers = _ask(asked, lambda c, b: client.scan_partitions(c, b, leaders[b]))
    gone = [BrokerAnswer[client.ScannedPartitions](b, None, "the broker is down") for b in leaders if b not in brokers]
    return [*answers, *gone]


Judged = tuple[PartitionTransaction, TransactionVerdict, str | None]
"""A transaction of a partition, its verdict, and its transactional id if a coordinator has one."""


@dataclass(frozen=True, slots=True)
class CoordinatorAnswer:
    """The transactional ids with certain producer ids at one broker. `partitions`: the partitions of __transaction_state that the broker coordinated
    before and after it listed them, so the list has all of these partitions."""

    timeout_ms_max: int
    described: list[DescribedTransaction]
    partitions: frozenset[int]


def _judged(
    found: list[PartitionTransaction], brokers: Mapping[int, BrokerAddress]
) -> tuple[list[Judged], list[BrokerAnswer[CoordinatorAnswer]], int | None, int]:
    """(verdicts, answers of the coordinators, transaction.max.timeout.ms, offline partitions of __transaction_state)."""
    offline = _offline_partitions()
    if not found:
        return [], [], None, offline
    producer_ids = sorted({t.producer_id for t in found})
    count = Partition.objects.filter(topic__name=TRANSACTION_STATE_TOPIC).count()
    probes = probe_ids(count)

    def coordinated(connection: KafkaConnection, broker_id: int) -> CoordinatorAnswer:
        before = client.coordinated_partitions(connection, probes)
        listed = client.list_transactions(connection, broker_id, producer_ids=producer_ids)
        described = client.describe_transactions(connection, [t.transactional_id for t in listed]) if listed else []
        after = client.coordinated_partitions(connection, probes)
        return CoordinatorAnswer(client.timeout_ms_max(connection, broker_id), described, before & after)

    answers = _ask(brokers, coordinated)
    # While a coordinator moves, two brokers may answer for it. An open transaction counts more than a closed one.
    known = {d.producer_id: d for a in answers if a.value for d in a.value.described}
    known |= {d.producer_id: d for a in answers if a.value for d in a.value.described if d.is_open}
    maxima = [a.value.timeout_ms_max for a in answers if a.value]
    covered = frozenset[int]().union(*(a.value.partitions for a in answers if a.value))
    complete = count > 0 and len(covered) == count and not _silent(answers) and not offline
    now_ms = _now_ms()
    judged: list[Judged] = []
    for t in found:
        mine = known.get(t.producer_id)
        v = verdict(t, mine, all_answered=complete, now_ms=now_ms, timeout_ms_max=max(maxima, default=0))
        judged.append((t, v, mine.transactional_id if mine is not None else None))
    return judged, answers, max(maxima, default=None), offline


def verdicts(found: list[PartitionTransaction], brokers: Mapping[int, BrokerAddress]) -> list[Judged]:
    """Those of `found` that are still open, with their verdicts."""
    return _still_open(_judged(found, brokers)[0], brokers)


def _still_open(judged: list[Judged], brokers: Mapping[int, BrokerAddress]) -> list[Judged]:
    """Without those that ended before the coordinators answered, because they do not hang. Active ones are not asked about again."""
    suspects = [j for j in judged if j[1] is not TransactionVerdict.ACTIVE]
    leaders: dict[int, dict[str, list[int]]] = {}
    for t, _, _ in suspects:
        indexes = leaders.setdefault(t.leader, {}).setdefault(t.topic, [])
        if t.index not in indexes:
            indexes.append(t.index)
    answers = {a.broker_id: a.value for a in scan_leaders(brokers, leaders)}
    out = [j for j in judged if j[1] is TransactionVerdict.ACTIVE]
    for t, v, name in suspects:
        again = answers.get(t.leader)
        if again is not None and any(t.same_as(other) for other in again.transactions):
            out.append((t, v, name))
        elif again is None or again.described < sum(map(len, leaders[t.leader].values())):
            out.append((t, TransactionVerdict.UNDETERMINED, name))
    return out


# -- shapes -----------------------------------------------------------------------------------------------------------------


def _row(t: ListedTransaction, d: DescribedTransaction | None, now_ms: int) -> TransactionRow:
    if d is None:
        return TransactionRow(t.transactional_id, t.state, t.producer_id, t.coordinator, None, None, None, [])
    age_ms = now_ms - d.started_ms if d.is_open and d.started_ms is not None else None
    return TransactionRow(
        transactional_id=t.transactional_id,
        state=d.state,
        producer_id=d.producer_id,
        coordinator=t.coordinator,
        producer_epoch=d.producer_epoch,
        timeout_ms=d.timeout_ms,
        open_s=None if age_ms is None else max(0.0, age_ms / 1000),
        partitions=[f"{topic}-{i}" for topic, i in d.partitions],
    )


def _partitions_of(d: DescribedTransaction, brokers: Mapping[int, BrokerAddress]) -> list[TransactionPartition]:
    shown = d.partitions[:PARTITIONS_SHOWN_MAX]
    names = {topic for topic, _ in shown}
    rows = Partition.objects.filter(topic__name__in=names).values_list("topic__name", "index", "leader")
    leader_of = {(name, i): leader for name, i, leader in rows}
    leaders: dict[int, dict[str, list[int]]] = {}
    for topic, i in shown:
        leader = leader_of.get((topic, i))
        if leader is not None:
            leaders.setdefault(leader, {}).setdefault(topic, []).append(i)
    scans = scan_leaders(brokers, leaders)
    begun = {t.partition: t for a in scans if a.value for t in a.value.transactions if t.producer_id == d.producer_id}
    out = []
    for topic, i in shown:
        t = begun.get((topic, i))
        at = _time(t.last_timestamp_ms) if t is not None else None
        out.append(TransactionPartition(topic, i, leader_of.get((topic, i)), t.start_offset if t else None, at))
    return out


def _hanging_row(t: PartitionTransaction, v: TransactionVerdict, transactional_id: str | None) -> HangingRow:
    return HangingRow(
        topic=t.topic,
        index=t.index,
        leader=t.leader,
        producer_id=t.producer_id,
        producer_epoch=t.producer_epoch,
        coordinator_epoch=t.coordinator_epoch,
        start_offset=t.start_offset,
        last_timestamp=_time(t.last_timestamp_ms),
        transactional_id=transactional_id,
        verdict=v,
        target=t.target,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _time(ms: int | None) -> datetime | None:
    return None if ms is None or ms < 0 else datetime.fromtimestamp(ms / 1000, UTC)
