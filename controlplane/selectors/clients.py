"""Connected clients, read from the brokers, because no other process knows them. Invariant: a response names the brokers that did not respond."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter

from brokerd.cluster.quota_entities import CLIENT, IP, USER
from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.wire.messages import DescribeLogDirsResponse
from controlplane.clients.all_brokers import call_brokers
from controlplane.clients.connected_clients import ConnectedClients, connected_clients
from controlplane.domain.login_advice import LOGIN_ADVICE
from controlplane.domain.quota import Entity
from controlplane.models import GroupPartition
from controlplane.selectors.paging import Page, PageStart, ordered_page
from controlplane.selectors.transactions import BrokerCoverage, SilentBroker, living_brokers

ConnectedClient = DescribeLogDirsResponse.ConnectedClient
Rejection = DescribeLogDirsResponse.Rejection
FailedLogin = DescribeLogDirsResponse.FailedLogin
REJECTED_MAX = 100
"""Maximum number of rows of rejected clients on the page and in REST."""
COLUMNS = (
    "bytes_per_s",
    "received_bytes_per_s",
    "produced_bytes_per_s",
    "fetched_bytes_per_s",
    "sent_bytes_per_s",
    "cold_bytes_per_s",
    "requests_per_s",
    "connections",
    "client_id",
    "principal",
    "host",
    "software",
    "connected_s",
    "idle_s",
)
KEY = ("client_id", "principal", "host", "software", "listener", "is_broker")
"""Columns that distinguish clients."""
OF_TOPIC = ("produced_bytes_per_s", "fetched_bytes_per_s")
"""Columns that only the list of one topic has."""


class TopicUse(StrEnum):
    """Use of a topic by a client since it connected. A client can have both."""

    PRODUCED = "produced"
    FETCHED = "fetched"


@dataclass(frozen=True, slots=True)
class ClientRow:
    """The connections with the same principal, client ID, address, software and listener, at all brokers. `software`: name and version that the client
    reports (KIP-511), empty for older clients. Rates over the last ten to twenty seconds; `received` by the brokers, `sent` by them, `cold`: loaded from
    the disk for this client, because it reads records that are not in memory. `connected_s`: age of the oldest connection. `idle_s`: since the last
    request. `is_broker`: replication and requests between brokers. Only in a list of one topic, otherwise null: `produced_bytes_per_s` and `produced_bytes`, of
    record batches for the topic, now and since the connections were opened, rejected ones included; `fetched_bytes_per_s` and `fetched_bytes`, of those that
    were sent to the client; `groups`: consumer groups whose members have its client ID and its address, and read the topic. A client that read and has none
    reads without a group, or as a member of a share group."""

    client_id: str
    principal: str
    host: str
    software: str
    listener: str
    is_broker: bool
    brokers: list[int]
    connections: int
    bytes_per_s: float
    received_bytes_per_s: float
    sent_bytes_per_s: float
    cold_bytes_per_s: float
    requests_per_s: float
    connected_s: float
    idle_s: float
    produced_bytes_per_s: float | None = None
    produced_bytes: int | None = None
    fetched_bytes_per_s: float | None = None
    fetched_bytes: int | None = None
    groups: list[str] | None = None


@dataclass(frozen=True, slots=True)
class FailedLoginRow:
    """Failed logins of one client with the same user, mechanism and `failure`. `user`: the name that the client sent,
    empty if it sent none. Brokers keep the latest five of each client. `advice`: what to do."""

    user: str
    mechanism: str
    failure: str
    count: int
    ago_s: float
    advice: str


@dataclass(frozen=True, slots=True)
class RefusedClientRow:
    """Rejected or throttled requests of one client for one reason, over all brokers since their starts. `principal`:
    empty for a client that is not authenticated. `client_id`: empty for a connection without a request. `ago_s`: since the last rejection of this client.
    `operation`, `resource_type`, `resource_name`: the last operation without authorization, as in ACLs; empty: another reason, or unknown.
    `logins`: the latest failed logins, if the reason is that the authentication failed."""

    host: str
    principal: str
    client_id: str
    reason: str
    count: int
    brokers: list[int]
    ago_s: float
    operation: str
    resource_type: str
    resource_name: str
    logins: list[FailedLoginRow]


@dataclass(frozen=True, slots=True)
class ClientPage(Page[ClientRow], BrokerCoverage):
    """A page of clients. `not_listed`: at brokers with more than 1,000 clients those with the least traffic are missing; a client at several brokers
    counts several times. `brokers_silent`: clients that are connected only to them are missing. `lagging_readers`: clients that match and read records
    from the disk, with `lagging_bytes_per_s` together. `refused`: the latest rejections, at most 100."""

    rows: list[ClientRow]
    refused: list[RefusedClientRow]
    not_listed: int
    lagging_readers: int
    lagging_bytes_per_s: float
    brokers_asked: int
    brokers_silent: list[SilentBroker]


def client_list(
    *,
    query: str = "",
    broker: int | None = None,
    topic: str = "",
    topic_use: str = "",
    with_brokers: bool = False,
    sort: str = "-bytes_per_s",
    page: PageStart = 1,
    per_page: int = 50,
) -> ClientPage:
    """Clients with `query` in their client ID, principal, address or software. `broker`: only the connections to this broker. `topic`: only clients that
    have produced to this topic or read from it since they connected; `topic_use`: a TopicUse, only these. `with_brokers`: also the connections between
    brokers. Waits up to two seconds for brokers that do not respond."""
    brokers = [b for b in living_brokers().values() if broker in (None, b.broker_id)]
    responses = call_brokers(brokers, lambda connection: connected_clients(connection, topic))
    known = {a.broker_id: a.value for a in responses if a.value is not None}
    rows = [
        r
        for r in _rows(known, topic)
        if (with_brokers or not r.is_broker) and _contains(r, query.lower()) and _used(r, topic_use)
    ]
    column = sort.lstrip("-")
    if column not in COLUMNS or (column in OF_TOPIC and not topic):
        sort, column = "-bytes_per_s", "bytes_per_s"
    cold = [r.cold_bytes_per_s for r in rows if r.cold_bytes_per_s > 0]
    then = [(attrgetter(name), True) for name in OF_TOPIC if topic]
    order = [(attrgetter(column), sort.startswith("-")), *then, *((attrgetter(name), False) for name in KEY)]
    shown, total, window = ordered_page(rows, order, page=page, per_page=per_page)
    return ClientPage(
        rows=shown,
        refused=_rejected_clients(known, query.lower()),
        total=total,
        window=window,
        sort=sort,
        query=query,
        not_listed=sum(max(0, c.count - len(c.clients)) for c in known.values()),
        lagging_readers=len(cold),
        lagging_bytes_per_s=_sum(cold),
        brokers_asked=len(responses),
        brokers_silent=[SilentBroker(a.broker_id, a.problem) for a in responses if a.value is None],
    )


@dataclass(frozen=True, slots=True)
class ClientRates:
    """Bytes per second of the connections of one client ID, one user or both, {broker id: rate} over the last ten to twenty seconds, because a quota is a
    limit per broker. `received`: requests; `sent`: responses. Brokers without such a connection are missing. `responses`: number of brokers that responded."""

    received: dict[int, float]
    sent: dict[int, float]
    brokers_silent: list[int]
    responses: int


def client_rates(entity: Entity) -> ClientRates | None:
    """The rates that a quota of `entity` would limit. None for an address and for a default, which limits many clients separately. Waits up to two seconds for
    brokers that do not respond."""
    if not entity or IP in entity or None in entity.values():
        return None
    responses = call_brokers(list(living_brokers().values()), connected_clients)
    received: dict[int, float] = {}
    sent: dict[int, float] = {}
    for response in responses:
        for client in response.value.clients if response.value is not None else ():
            names = {CLIENT: client.client_id, USER: client.principal.removeprefix("User:")}
            if client.is_broker or any(names[entity_type] != name for entity_type, name in entity.items()):
                continue
            received[response.broker_id] = received.get(response.broker_id, 0.0) + client.received_bytes_per_second
            sent[response.broker_id] = sent.get(response.broker_id, 0.0) + client.sent_bytes_per_second
    silent = [response.broker_id for response in responses if response.value is None]
    return ClientRates(received, sent, silent, len(responses) - len(silent))


def _rejected_clients(responses: dict[int, ConnectedClients], query: str) -> list[RefusedClientRow]:
    """One row per client and reason, the latest first."""
    rejections: dict[tuple[str, str, str, str], list[tuple[int, Rejection]]] = {}
    logins = _failed_logins(responses)
    for broker_id, response in responses.items():
        for r in response.rejections:
            users = [x.user for x in _logins_of(r, logins)]
            if any(query in text.lower() for text in (r.host, r.principal, r.client_id, *users)):
                rejections.setdefault((r.host, r.principal, r.client_id, r.reason), []).append((broker_id, r))
    rows = [_rejected_row(key, parts, _logins_of(parts[0][1], logins)) for key, parts in rejections.items()]
    return sorted(rows, key=lambda r: (r.ago_s, -r.count, r.host, r.principal, r.client_id, r.reason))[:REJECTED_MAX]


def _failed_logins(responses: dict[int, ConnectedClients]) -> dict[tuple[str, str], list[FailedLoginRow]]:
    """By (address, client ID), over all brokers, the latest first."""
    found: dict[tuple[str, str], dict[tuple[str, str, str], list[FailedLogin]]] = {}
    for response in responses.values():
        for failed_login in response.failed_logins:
            by_login = found.setdefault((failed_login.host, failed_login.client_id), {})
            by_login.setdefault((failed_login.user, failed_login.mechanism, failed_login.failure), []).append(
                failed_login
            )
    return {
        client: sorted(
            (
                FailedLoginRow(
                    *key,
                    count=sum(x.count for x in parts),
                    ago_s=min(x.ago_ms for x in parts) / 1000,
                    advice=LOGIN_ADVICE.get(key[2], ""),
                )
                for key, parts in by_login.items()
            ),
            key=lambda r: (r.ago_s, r.user, r.mechanism, r.failure),
        )
        for client, by_login in found.items()
    }


def _logins_of(r: Rejection, logins: dict[tuple[str, str], list[FailedLoginRow]]) -> list[FailedLoginRow]:
    return logins.get((r.host, r.client_id), []) if r.reason == RejectionReason.AUTHENTICATION_FAILED else []


def _rejected_row(
    key: tuple[str, str, str, str], parts: list[tuple[int, Rejection]], logins: list[FailedLoginRow]
) -> RefusedClientRow:
    latest = min((r for _, r in parts), key=lambda r: r.ago_ms)
    return RefusedClientRow(
        *key,
        count=sum(r.count for _, r in parts),
        brokers=sorted(b for b, _ in parts),
        ago_s=latest.ago_ms / 1000,
        operation=latest.operation.lower(),
        resource_type=latest.resource_type.lower(),
        resource_name=latest.resource_name,
        logins=logins,
    )


def _contains(row: ClientRow, query: str) -> bool:
    return any(query in text.lower() for text in (row.client_id, row.principal, row.host, row.software))


def _used(row: ClientRow, topic_use: str) -> bool:
    used = {TopicUse.PRODUCED.value: row.produced_bytes, TopicUse.FETCHED.value: row.fetched_bytes}
    return bool(used.get(topic_use, True))


def _groups(topic: str) -> dict[tuple[str, str], list[str]]:
    """{(client ID, address): the groups with a member that reads the topic}."""
    found: dict[tuple[str, str], list[str]] = {}
    rows = GroupPartition.objects.filter(topic=topic).exclude(client_id="").order_by("group_id")
    for client_id, host, group_id in rows.values_list("client_id", "host", "group_id").distinct():
        found.setdefault((client_id, host), []).append(group_id)
    return found


def _rows(responses: dict[int, ConnectedClients], topic: str) -> list[ClientRow]:
    """One row per client, over all brokers."""
    found: dict[tuple[object, ...], list[tuple[int, ConnectedClient]]] = {}
    for broker_id, response in responses.items():
        for c in response.clients:
            software = f"{c.software_name} {c.software_version}".strip()
            key = (c.client_id, c.principal, c.host, software, c.listener, c.is_broker)
            found.setdefault(key, []).append((broker_id, c))
    groups = _groups(topic) if topic else None
    return [_row(software=str(key[3]), parts=parts, groups=groups) for key, parts in found.items()]


def _row(
    software: str, parts: list[tuple[int, ConnectedClient]], groups: dict[tuple[str, str], list[str]] | None
) -> ClientRow:
    """`groups`: those of the topic, None without a topic."""
    first = parts[0][1]
    clients = [c for _, c in parts]
    received, sent = _sum(c.received_bytes_per_second for c in clients), _sum(c.sent_bytes_per_second for c in clients)
    row = ClientRow(
        client_id=first.client_id,
        principal=first.principal,
        host=first.host,
        software=software,
        listener=first.listener,
        is_broker=first.is_broker,
        brokers=sorted(broker_id for broker_id, _ in parts),
        connections=sum(c.connections for c in clients),
        bytes_per_s=round(received + sent, 1),
        received_bytes_per_s=received,
        sent_bytes_per_s=sent,
        cold_bytes_per_s=_sum(c.cold_bytes_per_second for c in clients),
        requests_per_s=_sum(c.requests_per_second for c in clients),
        connected_s=max(c.connected_ms for c in clients) / 1000,
        idle_s=min(c.idle_ms for c in clients) / 1000,
    )
    if groups is None:
        return row
    fetched = sum(c.fetched_bytes for c in clients)
    return replace(
        row,
        produced_bytes_per_s=_sum(c.produced_bytes_per_second for c in clients),
        produced_bytes=sum(c.produced_bytes for c in clients),
        fetched_bytes_per_s=_sum(c.fetched_bytes_per_second for c in clients),
        fetched_bytes=fetched,
        groups=groups.get((first.client_id, first.host), []) if fetched else [],
    )


def _sum(values: Iterable[float]) -> float:
    return round(sum(values), 1)
