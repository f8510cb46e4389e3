"""Share groups (KIP-932), read from their coordinators, because no other process knows them. The lag in time and the status are those of the monitor.

Invariants: a read waits at most a few seconds, and a response names the brokers that did not respond. An unknown value is None, never zero. A page
describes only its own rows. Does not contain: changes of offsets (`services.offset_resets`), the deletion (`services.share_groups`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TypeVar

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC
from brokerd.config.share_groups import DEAD_LETTER_TOPIC, KEY_ORDER
from brokerd.sharing.delivery import RecordsInFlight
from controlplane.clients import share_groups as client
from controlplane.clients.all_brokers import BrokerAddress, BrokerResponse, call_brokers
from controlplane.clients.connection import KafkaConnection
from controlplane.clients.share_groups import DescribedShareGroup, ListedShareGroup
from controlplane.domain.lag import LagStatus, worst_status
from controlplane.domain.share_lag import stall_of
from controlplane.models import ObservedPartition, ShareGroupPartition
from controlplane.selectors.group_configs import desired_group_configs
from controlplane.selectors.paging import Page, PageStart, ordered_page
from controlplane.selectors.transactions import BrokerCoverage, SilentBroker, living_brokers
from controlplane.selectors.visibility import GROUP, TOPIC, sees

COLUMNS = ("group_id", "state", "coordinator")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ShareGroupRow:
    """`member_count`, `lag_records`: null if the coordinator did not describe the group. `lag_records`: records whose delivery has not ended, over the
    partitions with a known lag; `partitions_unknown` counts the others. As last observed by the cluster monitor: `lag_ms_max`, the age of the oldest record
    at a start offset, null if unknown; `lag_at_least`: it may be older; `status`, that of the worst partition;
    `partitions_full`: partitions that deliver no new record, because of their limit of records in flight, null if unknown. For one group they are counted
    when it is read, by the leaders that respond."""

    group_id: str
    state: str
    member_count: int | None
    topics: list[str]
    lag_records: int | None
    lag_ms_max: int | None
    lag_at_least: bool
    status: str
    partitions_unknown: int
    coordinator: int
    partitions_full: int | None = None


@dataclass(frozen=True, slots=True)
class ShareGroupPage(Page[ShareGroupRow], BrokerCoverage):
    """A page of share groups. `brokers_asked` and `brokers_silent`: the groups of silent brokers are missing. `offline_partitions`: partitions of
    __consumer_offsets without a leader; their groups are missing, too."""

    rows: list[ShareGroupRow]
    brokers_asked: int
    brokers_silent: list[SilentBroker]
    offline_partitions: int


@dataclass(frozen=True, slots=True)
class SharePartitionRow:
    """`start_offset`: the first offset whose delivery has not ended, null before the first fetch. `lag_records`: records from there on whose delivery
    has not ended, acquired ones included. `end_offset`: as last observed. `member_count`: members to which the partition is assigned. `problem`: why
    the offsets are unknown, or empty. As last observed by the cluster monitor: `lag_ms`, the age of the record at the start offset, null if unknown;
    `lag_at_least`: it may be older; `status`; `block`: why no member can read further,
    or empty; `stall`: why the group makes no progress there, or empty. As the leader counts them, null if it did not respond or has not loaded the state: `acquired`, records that
    members hold; `lock_ms`, until the first of their locks ends, also null without one; `redelivery`, records that were delivered before and wait for another
    delivery; `archiving`, records that wait for their dead letters; `in_flight`, offsets from `start_offset` to the last delivered record, at most
    `in_flight_max`. At this limit no new record is delivered."""

    topic: str
    index: int
    start_offset: int | None
    end_offset: int | None
    lag_records: int | None
    lag_ms: int | None
    lag_at_least: bool
    status: str
    block: str
    stall: str
    member_count: int
    problem: str
    acquired: int | None = None
    lock_ms: int | None = None
    redelivery: int | None = None
    archiving: int | None = None
    in_flight: int | None = None
    in_flight_max: int | None = None

    @property
    def is_full(self) -> bool:
        """True if the limit of records in flight prevents the delivery of new records."""
        return self.in_flight is not None and self.in_flight_max is not None and self.in_flight >= self.in_flight_max


@dataclass(frozen=True, slots=True)
class ShareMemberRow:
    """`partitions`: as topic-index. `acquired`: records that the member holds, in the partitions whose leaders answered; null if none of them did."""

    member_id: str
    client_id: str
    host: str
    topics: list[str]
    partitions: list[str]
    acquired: int | None = None


@dataclass(frozen=True, slots=True)
class ShareGroupDetail(BrokerCoverage):
    """One share group. `row` null: no coordinator that answered has it. `dead_letter_topic`: the topic of its dead letters, empty without one.
    `key_order`: it keeps the order of each key. Both are as desired in the configs of the group."""

    group_id: str
    row: ShareGroupRow | None
    epoch: int | None
    assignor: str
    members: list[ShareMemberRow]
    partitions: list[SharePartitionRow]
    brokers_asked: int
    brokers_silent: list[SilentBroker]
    offline_partitions: int
    dead_letter_topic: str = ""
    key_order: bool = False

    @property
    def full_partitions(self) -> list[SharePartitionRow]:
        """The partitions that deliver no new record, because of the limit of records in flight."""
        return [p for p in self.partitions if p.is_full]


def share_group_list(
    *, query: str = "", sort: str = "group_id", page: PageStart = 1, per_page: int = 50
) -> ShareGroupPage:
    """Share groups whose name contains `query`. Sort columns: COLUMNS."""
    brokers = living_brokers()
    responses = _call_all(brokers, client.list_share_groups)
    known = [g for a in responses for g in a.value or [] if sees(GROUP, g.group_id)]
    listed = [g for g in known if query.lower() in g.group_id.lower()]
    column = sort.lstrip("-")
    if column not in COLUMNS:
        sort = column = COLUMNS[0]
    order = [
        (attrgetter(column), sort.startswith("-")),
        (attrgetter("group_id"), False),
        (attrgetter("coordinator"), False),
    ]
    shown, total, window = ordered_page(listed, order, page=page, per_page=per_page)
    described = _describe(shown, brokers)
    observed = _monitor_rows(g.group_id for g in shown)
    rows = [
        _row(g.group_id, g.state, g.coordinator, described.get((g.coordinator, g.group_id)), observed[g.group_id])
        for g in shown
    ]
    return ShareGroupPage(
        rows=rows,
        total=total,
        window=window,
        sort=sort,
        query=query,
        brokers_asked=len(responses),
        brokers_silent=_silent(responses),
        offline_partitions=_offline_partitions(),
    )


def share_group(group_id: str) -> ShareGroupDetail:
    """One share group with its members and partitions."""
    responses = _call_all(
        living_brokers(),
        lambda c, b: (client.describe_share_groups(c, [group_id]), client.describe_in_flight(c, group_id)),
    )
    silent, offline = _silent(responses), _offline_partitions()
    # While the coordinator moves, two brokers may answer. The higher epoch is the newer state.
    described = ((a.value[0][0], a.broker_id) for a in responses if a.value and a.value[0])
    found = max(described, key=lambda pair: pair[0].epoch, default=None)
    if found is None or not sees(GROUP, group_id):
        return ShareGroupDetail(group_id, None, None, "", [], [], len(responses), silent, offline)
    group, coordinator = found
    observed = _monitor_rows([group_id])[group_id]
    in_flight = {key: x for a in responses if a.value for key, x in a.value[1].items() if sees(TOPIC, key[0])}
    configs = desired_group_configs(group_id)
    topic = configs.get(DEAD_LETTER_TOPIC, "")
    row = _row(group_id, group.state, coordinator, group, observed)
    return ShareGroupDetail(
        group_id=group_id,
        row=replace(row, partitions_full=_full_count(x.in_flight >= x.in_flight_max for x in in_flight.values())),
        epoch=group.epoch,
        assignor=group.assignor,
        members=[
            ShareMemberRow(
                x.member_id,
                x.client_id,
                x.host,
                [t for t in x.topics if sees(TOPIC, t)],
                [f"{t}-{i}" for t, i in sorted(x.partitions) if sees(TOPIC, t)],
                sum(p.acquired.get(x.member_id, 0) for p in in_flight.values()) if in_flight else None,
            )
            for x in group.members
        ],
        partitions=_partitions(group, observed, in_flight),
        brokers_asked=len(responses),
        brokers_silent=silent,
        offline_partitions=offline,
        dead_letter_topic=topic if sees(TOPIC, topic) else "",
        key_order=configs.get(KEY_ORDER) == "true",
    )


# -- requests ---------------------------------------------------------------------------------------------------------------


def _call_all(
    brokers: Mapping[int, BrokerAddress], call: Callable[[KafkaConnection, int], T]
) -> list[BrokerResponse[T]]:
    ids = {(b.host, b.port): b.broker_id for b in brokers.values()}
    return call_brokers(brokers.values(), lambda connection: call(connection, ids[connection.host, connection.port]))


def _silent(responses: Iterable[BrokerResponse[T]]) -> list[SilentBroker]:
    return [SilentBroker(a.broker_id, a.problem) for a in responses if a.value is None]


def _offline_partitions() -> int:
    return ObservedPartition.objects.filter(topic__name=GROUP_OFFSETS_TOPIC, leader=None).count()


def _describe(
    listed: Iterable[ListedShareGroup], brokers: Mapping[int, BrokerAddress]
) -> dict[tuple[int, str], DescribedShareGroup]:
    """The descriptions of these groups, by coordinator and name. Two requests per coordinator."""
    requested: dict[int, list[str]] = {}
    for g in listed:
        requested.setdefault(g.coordinator, []).append(g.group_id)
    responses = _call_all(
        {b: brokers[b] for b in requested}, lambda c, b: client.describe_share_groups(c, requested[b])
    )
    return {(a.broker_id, g.group_id): g for a in responses for g in a.value or []}


def _full_count(limits: Iterable[bool]) -> int | None:
    """`limits`: of each partition with a known number of records in flight, whether it is at its limit."""
    found = list(limits)
    return sum(found) if found else None


# -- shapes -----------------------------------------------------------------------------------------------------------------


Observed = Mapping[tuple[str, int], ShareGroupPartition]
"""The rows of the monitor for one group, by topic and index."""


def _monitor_rows(group_ids: Iterable[str]) -> dict[str, dict[tuple[str, int], ShareGroupPartition]]:
    """Return the rows of visible topics by group. A group that the monitor has not observed is empty."""
    found: dict[str, dict[tuple[str, int], ShareGroupPartition]] = {name: {} for name in group_ids}
    for row in ShareGroupPartition.objects.filter(group_id__in=found).defer("track"):
        if sees(TOPIC, row.topic):
            found[row.group_id][row.topic, row.index] = row
    return found


def _row(
    group_id: str, state: str, coordinator: int, group: DescribedShareGroup | None, observed: Observed
) -> ShareGroupRow:
    lag_ms = max((x.lag_ms for x in observed.values() if x.lag_ms is not None), default=None)
    lag_at_least = any(x.lag_at_least for x in observed.values())
    status = worst_status(LagStatus(x.status) for x in observed.values()).value
    full = _full_count(x.is_full for x in observed.values() if x.is_full is not None)
    if group is None:
        return ShareGroupRow(group_id, state, None, [], None, lag_ms, lag_at_least, status, 0, coordinator, full)
    topics = {x.topic for x in group.offsets} | {t for x in group.members for t in x.topics}
    return ShareGroupRow(
        group_id=group_id,
        state=group.state,
        member_count=len(group.members),
        topics=sorted(t for t in topics if sees(TOPIC, t)),
        lag_records=group.lag_records,
        lag_ms_max=lag_ms,
        lag_at_least=lag_at_least,
        status=status,
        partitions_unknown=group.partitions_unknown,
        coordinator=coordinator,
        partitions_full=full,
    )


def _partitions(
    group: DescribedShareGroup, observed: Observed, in_flight: Mapping[tuple[str, int], RecordsInFlight]
) -> list[SharePartitionRow]:
    rows = ObservedPartition.objects.filter(topic__name__in={x.topic for x in group.offsets})
    ends = {(t, i): end for t, i, end in rows.values_list("topic__name", "index", "end_offset")}
    members = Counter(key for x in group.members for key in x.partitions)
    rows_of_group = []
    for position in sorted(group.offsets, key=lambda x: (x.topic, x.index)):
        if not sees(TOPIC, position.topic):
            continue
        key = (position.topic, position.index)
        seen, counted = observed.get(key), in_flight.get(key)
        status = LagStatus(seen.status) if seen is not None else LagStatus.UNKNOWN
        rows_of_group.append(
            SharePartitionRow(
                topic=position.topic,
                index=position.index,
                start_offset=position.start,
                end_offset=ends.get(key),
                lag_records=position.lag,
                lag_ms=seen.lag_ms if seen is not None else None,
                lag_at_least=seen is not None and seen.lag_at_least,
                status=status.value,
                block=seen.block if seen is not None else "",
                stall=stall_of(status, members[key]) or "",
                member_count=members[key],
                problem=position.error,
                **_counts(counted),
            )
        )
    return rows_of_group


def _counts(in_flight: RecordsInFlight | None) -> dict[str, int | None]:
    """The columns of a row that only the leader knows."""
    if in_flight is None:
        return {}
    return {
        "acquired": sum(in_flight.acquired.values()),
        "lock_ms": in_flight.lock_ms,
        "redelivery": in_flight.redelivery,
        "archiving": in_flight.archiving,
        "in_flight": in_flight.in_flight,
        "in_flight_max": in_flight.in_flight_max,
    }
