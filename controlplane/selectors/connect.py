"""Kafka Connect: the clusters, the list of connectors, one connector. Read from the workers at each request.

Invariants: the requests to all clusters run at the same time, and a page waits at most PAGE_SECONDS; what did not arrive is unknown. A cluster that does not
respond is a `problem` of its row, not an error. No row has a secret of a config. Does not contain: changes (`controlplane.services.connect`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import ParamSpec, Self, TypeVar

from django.utils.crypto import salted_hmac

from controlplane.clients import connectors as api
from controlplane.clients.connect import ConnectClient, ConnectUnavailable, ConnectUnknown, clients
from controlplane.clients.connectors import Connector
from controlplane.domain.connect import (
    ATTENTION,
    ConnectorState,
    ConnectorType,
    group_of,
    hide_secrets,
    without_secrets,
)
from controlplane.domain.errors import Rejected
from controlplane.models import Topic
from controlplane.selectors.common import cluster_row
from controlplane.selectors.paging import Page, PageStart, ordered_page
from weir_common.phrases import reason_of, sentence

PAGE_SECONDS = 4.0
"""Time limit for the responses of all clusters, or for all parts of one connector."""

PARALLEL = 20
"""Requests of one page at a time; one or two per cluster."""

PER_PAGE_MAX = 200
"""Maximum number of connectors of one page. The workers send all of them, also if the page shows fewer."""

TRACE_CHARS_MAX = 20_000
"""Maximum number of characters of the trace of a failed task. Traces of Java have some thousand characters."""

OFFSETS_MAX = 500
"""Maximum number of offsets of one connector that are shown. A source may have one per file or table."""

P = ParamSpec("P")
T = TypeVar("T")
NO_CLUSTER = "No Connect cluster is configured (WEIR_CONNECT_URLS)."
LATE = sentence("The Connect cluster did not respond within {limit} s.", limit=f"{PAGE_SECONDS:g}")


@dataclass(frozen=True, slots=True)
class ConnectClusterRow:
    """`workers`: addresses of WEIR_CONNECT_URLS. The other fields are null if the cluster did not respond; `problem` says why. `is_this_cluster`: its topics
    and consumer groups are those of this Kafka cluster."""

    name: str
    workers: list[str]
    version: str | None
    kafka_cluster_id: str | None
    is_this_cluster: bool | None
    connectors: int | None
    failed_connectors: int | None
    tasks: int | None
    failed_tasks: int | None
    problem: str


@dataclass(frozen=True, slots=True)
class ConnectorRow:
    """`state`: of the connector itself; its tasks have their own. `group`: the consumer group of a sink, null for a source."""

    cluster: str
    name: str
    type: str
    class_name: str
    state: str
    worker: str
    tasks: int
    running_tasks: int
    failed_tasks: int
    group: str | None

    @property
    def can_stop(self) -> bool:
        return self.state != ConnectorState.STOPPED

    @property
    def can_resume(self) -> bool:
        return self.state in (ConnectorState.PAUSED, ConnectorState.STOPPED)


@dataclass(frozen=True, slots=True)
class ConnectorPage(Page[ConnectorRow]):
    """`clusters`: all configured ones, also those that did not respond."""

    clusters: list[ConnectClusterRow]


@dataclass(frozen=True, slots=True)
class ConnectorTaskRow:
    """`trace`: why a failed task ended, else ""."""

    id: int
    state: str
    worker: str
    trace: str


@dataclass(frozen=True, slots=True)
class ConnectorConfigRow:
    """`value`: without secrets."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class ConnectorTopicRow:
    """`exists`: whether this Kafka cluster has the topic."""

    name: str
    exists: bool


@dataclass(frozen=True, slots=True)
class ConnectorOffsetRow:
    """Partition and offset as JSON texts. A source chooses their form, those of a sink are a topic, a partition and an offset of its group."""

    partition: str
    offset: str


@dataclass(frozen=True, slots=True)
class ConnectorDetail:
    """`topics` and `offsets`: null if the workers do not report them. `offsets_complete`: no offset was omitted at the end. `version`: of the config, for
    a change that must not overwrite another one. `is_this_cluster`: topics and group are those of this Kafka cluster; null if unknown."""

    row: ConnectorRow
    trace: str
    config: list[ConnectorConfigRow]
    version: str
    tasks: list[ConnectorTaskRow]
    topics: list[ConnectorTopicRow] | None
    offsets: list[ConnectorOffsetRow] | None
    offsets_complete: bool
    is_this_cluster: bool | None


@dataclass(frozen=True, slots=True)
class ConnectPluginRow:
    """A class of connectors that the workers have. `type`: source or sink."""

    class_name: str
    type: str
    version: str


def client_of(cluster: str) -> ConnectClient:
    """Raises Rejected if the cluster is not configured."""
    found = next((c for c in clients() if c.name == cluster), None)
    if found is None:
        known = ", ".join(c.name for c in clients())
        raise Rejected(
            sentence("There is no Connect cluster {cluster}; configured: {known}.", cluster=repr(cluster), known=known)
            if known
            else NO_CLUSTER,
            "cluster",
        )
    return found


def cluster_names() -> list[str]:
    return [c.name for c in clients()]


def connector_list(
    *,
    query: str = "",
    cluster: str = "",
    state: str = "",
    sort: str = "state",
    page: PageStart = 1,
    per_page: int = 50,
) -> ConnectorPage:
    """Connectors with `query` in their name or class. `state`: failed = the connector or a task failed; else a state of the connector. `sort`: state (those
    that need attention first), name, cluster, failed_tasks, with '-' for the reverse."""
    rows, known, own_id = [], [], cluster_row().cluster_id
    with _ConcurrentReads() as reads:
        requested = [(c, reads.start(api.worker_info, c), reads.start(api.connectors, c)) for c in clients()]
        for client, worker_read, list_read in requested:
            info, listed = reads.result(worker_read), reads.result(list_read)
            own = [] if isinstance(listed, ConnectUnavailable) else [_row(client.name, c) for c in listed]
            known.append(_cluster(client, info, listed, own, own_id))
            rows += own
    chosen = [
        r
        for r in rows
        if query.lower() in f"{r.name} {r.class_name}".lower()
        and cluster in ("", r.cluster)
        and (not state or state in states_of(r))
    ]
    column, descending = sort.removeprefix("-"), sort.startswith("-")
    if column not in ORDERS:
        column, descending = "state", False
    order = [(ORDERS[column], descending), (ORDERS["name"], False), (ORDERS["cluster"], False)]
    shown, total, window = ordered_page(chosen, order, page=page, per_page=min(per_page, PER_PAGE_MAX))
    return ConnectorPage(
        rows=shown,
        total=total,
        window=window,
        sort=f"-{column}" if descending else column,
        query=query,
        clusters=known,
    )


def states_of(row: ConnectorRow) -> set[str]:
    """The states that find a connector: its own, and `failed` if it or a task failed."""
    has_failed = row.failed_tasks or row.state == ConnectorState.FAILED
    return {row.state.lower()} | ({"failed"} if has_failed else set())


def connector_detail(cluster: str, name: str) -> ConnectorDetail | None:
    """None if the cluster does not have the connector. Raises Rejected if the cluster is not configured or does not respond."""
    client = client_of(cluster)
    with _ConcurrentReads() as reads:
        info_read = reads.start(api.connector_info, client, name)
        status_read = reads.start(api.connector_status, client, name)
        topics_read = reads.start(api.active_topics, client, name)
        offsets_read = reads.start(api.offsets, client, name)
        worker_read = reads.start(api.worker_info, client)
        info, status, topics = reads.result(info_read), reads.result(status_read), reads.result(topics_read)
        known_offsets, worker = reads.result(offsets_read), reads.result(worker_read)
    if isinstance(info, ConnectUnknown):
        return None
    if isinstance(info, ConnectUnavailable):
        raise Rejected(reason_of(info))
    if isinstance(status, ConnectUnavailable) and not isinstance(status, ConnectUnknown):
        raise Rejected(reason_of(status))
    connector = api.connector_of(info, None if isinstance(status, ConnectUnavailable) else status)
    secrets = secret_names(client, connector.config)
    offsets = None if isinstance(known_offsets, ConnectUnavailable) else known_offsets
    return ConnectorDetail(
        row=_row(cluster, connector),
        trace=_trace(connector.trace, connector.config, secrets),
        config=[ConnectorConfigRow(n, v) for n, v in hide_secrets(connector.config, secrets).items()],
        version=config_version(connector.config),
        tasks=[
            ConnectorTaskRow(t.id, t.state, t.worker, _trace(t.trace, connector.config, secrets))
            for t in connector.tasks
        ],
        topics=None if isinstance(topics, ConnectUnavailable) else _topics(topics),
        offsets=None if offsets is None else [ConnectorOffsetRow(*o) for o in offsets[:OFFSETS_MAX]],
        offsets_complete=offsets is None or len(offsets) <= OFFSETS_MAX,
        is_this_cluster=_is_this_cluster(worker, cluster_row().cluster_id),
    )


def plugin_list(cluster: str) -> list[ConnectPluginRow]:
    """Classes of connectors that the workers of this cluster have. Raises Rejected."""
    try:
        return [ConnectPluginRow(p.class_name, p.type, p.version) for p in api.plugins(client_of(cluster))]
    except ConnectUnavailable as error:
        raise Rejected(reason_of(error)) from None


def secret_names(client: ConnectClient, config: Mapping[str, str]) -> frozenset[str]:
    """Configs of the type PASSWORD of the connector's class; empty if the worker does not report them."""
    try:
        return api.secret_configs(client, config.get("connector.class", ""))
    except ConnectUnavailable:
        return frozenset()


def config_version(config: Mapping[str, str]) -> str:
    """The version of a config. It changes with each change of the config and reveals nothing about its secrets."""
    return salted_hmac("weir.connector", json.dumps(config, sort_keys=True), algorithm="sha256").hexdigest()[:32]


STATES = ("failed", *(s.value.lower() for s in ATTENTION if s is not ConnectorState.FAILED))
"""Filters of the list."""

ORDERS: dict[str, Callable[[ConnectorRow], int | str]] = {
    "state": lambda r: min(ATTENTION.index(ConnectorState(r.state)), 0 if r.failed_tasks else len(ATTENTION)),
    "name": lambda r: r.name,
    "cluster": lambda r: r.cluster,
    "failed_tasks": lambda r: r.failed_tasks,
}


def _row(cluster: str, connector: Connector) -> ConnectorRow:
    states = [t.state for t in connector.tasks]
    return ConnectorRow(
        cluster=cluster,
        name=connector.name,
        type=connector.type,
        class_name=connector.config.get("connector.class", ""),
        state=connector.state,
        worker=connector.worker,
        tasks=len(states),
        running_tasks=states.count(ConnectorState.RUNNING),
        failed_tasks=states.count(ConnectorState.FAILED),
        group=group_of(connector.name, connector.config) if connector.type is ConnectorType.SINK else None,
    )


def _cluster(
    client: ConnectClient,
    info: api.ConnectWorkerInfo | ConnectUnavailable,
    listed: object,
    rows: list[ConnectorRow],
    own_id: str,
) -> ConnectClusterRow:
    problems = [reason_of(response) for response in (info, listed) if isinstance(response, ConnectUnavailable)]
    is_listed = not isinstance(listed, ConnectUnavailable)
    return ConnectClusterRow(
        name=client.name,
        workers=[w.label for w in client.workers],
        version=None if isinstance(info, ConnectUnavailable) else info.version,
        kafka_cluster_id=None if isinstance(info, ConnectUnavailable) else info.kafka_cluster_id,
        is_this_cluster=_is_this_cluster(info, own_id),
        connectors=len(rows) if is_listed else None,
        failed_connectors=sum(r.state == ConnectorState.FAILED for r in rows) if is_listed else None,
        tasks=sum(r.tasks for r in rows) if is_listed else None,
        failed_tasks=sum(r.failed_tasks for r in rows) if is_listed else None,
        problem=problems[0] if problems else "",
    )


def _is_this_cluster(info: api.ConnectWorkerInfo | ConnectUnavailable, own_id: str) -> bool | None:
    """None if the Connect cluster did not respond, or if this cluster's ID is unknown."""
    if isinstance(info, ConnectUnavailable) or not own_id:
        return None
    return bool(info.kafka_cluster_id == own_id)


def _topics(names: list[str]) -> list[ConnectorTopicRow]:
    known = set(Topic.objects.filter(name__in=names, deleted_at__isnull=True).values_list("name", flat=True))
    return [ConnectorTopicRow(name, name in known) for name in names]


def _trace(text: str, config: Mapping[str, str], secrets: frozenset[str]) -> str:
    return without_secrets(text[:TRACE_CHARS_MAX], config, secrets)


class _ConcurrentReads:
    """Concurrent reads, PAGE_SECONDS at most for all of them. A late request ends by its own time-out, in the background."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix="connect")
        self._end = time.monotonic() + PAGE_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def start(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._pool.submit(read, *args, **kwargs)

    def result(self, future: Future[T]) -> T | ConnectUnavailable:
        """The result, or why there is none."""
        wait([future], timeout=max(0.0, self._end - time.monotonic()))
        if not future.done():
            return ConnectUnavailable(LATE)
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, ConnectUnavailable):
            return error
        raise error
