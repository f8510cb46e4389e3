"""The log directories of one broker, read from the broker, because only the broker knows where its replicas are. Without a response within two seconds
there are no directories."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

from controlplane.clients.all_brokers import BrokerAddress, call_brokers
from controlplane.clients.log_dirs import describe_log_dirs
from controlplane.domain.log_dirs import ReportedLogDir, directory_moves
from controlplane.models import Broker
from controlplane.selectors.paging import Page, PageStart, ordered_page

SORT_COLUMNS = ("size_bytes", "topic", "directory")
LARGEST_FIRST = "-size_bytes"


@dataclass(frozen=True, slots=True)
class LogDirRow:
    """`state`: healthy, slow, hung or failed; the last two are offline. `probe_ms`: time of the last probe, a small write; null = unknown. `total_bytes`,
    `free_bytes`: of its file system, which other directories may share; null = unknown. `size_bytes`: of its replicas."""

    path: str
    state: str
    replicas: int | None
    size_bytes: int | None
    total_bytes: int | None
    free_bytes: int | None
    probe_ms: int | None


@dataclass(frozen=True, slots=True)
class LogDirMoveRow:
    """A replica that the broker copies from `source` to `target`. `lag_records`: records that the copy lacks."""

    topic: str
    index: int
    source: str
    target: str
    size_bytes: int
    future_bytes: int
    percent: float
    lag_records: int | None


@dataclass(frozen=True, slots=True)
class LogDirReplicaRow:
    """A replica in a log directory, as the broker reports it. `moving`: the broker copies it to another log directory."""

    topic: str
    index: int
    directory: str
    size_bytes: int
    moving: bool


@dataclass(frozen=True, slots=True)
class BrokerLogDirs(Page[LogDirReplicaRow]):
    """`problem`: why the broker did not respond. `rows`: a page of its replicas, the largest first by default."""

    broker_id: int
    problem: str
    directories: list[LogDirRow]
    moves: list[LogDirMoveRow]
    rows: list[LogDirReplicaRow]


def reported_log_dirs(broker_id: int) -> tuple[list[ReportedLogDir], str] | None:
    """(directories, why the broker did not respond). None: unknown broker."""
    broker = Broker.objects.filter(pk=broker_id).first()
    if broker is None:
        return None
    if not broker.alive:
        return [], "The broker is down."
    (response,) = call_brokers([BrokerAddress(broker_id, broker.host, broker.port)], describe_log_dirs)
    return response.value or [], response.problem


def broker_log_dirs(
    broker_id: int,
    *,
    query: str = "",
    directory: str = "",
    sort: str = LARGEST_FIRST,
    page: PageStart = 1,
    per_page: int = 50,
) -> BrokerLogDirs | None:
    """Return None for an unknown broker. `query`: part of a topic's name. `directory`: only the replicas in it."""
    reported = reported_log_dirs(broker_id)
    if reported is None:
        return None
    dirs, problem = reported
    moves = directory_moves(dirs)
    moving = {(m.topic, m.index) for m in moves}
    replicas = [
        LogDirReplicaRow(r.topic, r.index, d.path, r.size_bytes, r.partition in moving)
        for d in dirs
        if directory in ("", d.path)
        for r in d.replicas
        if not r.future and query.lower() in r.topic.lower()
    ]
    column = sort.lstrip("-")
    if column not in SORT_COLUMNS:
        sort, column = LARGEST_FIRST, "size_bytes"
    order = [
        (attrgetter(column), sort.startswith("-")),
        *((attrgetter(name), False) for name in ("topic", "index", "directory")),
    ]
    shown, total, window = ordered_page(replicas, order, page=page, per_page=per_page)
    return BrokerLogDirs(
        broker_id=broker_id,
        problem=problem,
        directories=[_directory(d) for d in dirs],
        moves=[
            LogDirMoveRow(
                m.topic, m.index, m.source, m.target, m.size_bytes, m.future_bytes, round(m.percent, 1), m.lag_records
            )
            for m in moves
        ],
        rows=shown,
        total=total,
        window=window,
        sort=sort,
        query=query,
    )


def _directory(directory: ReportedLogDir) -> LogDirRow:
    known = directory.state.served
    current = [r for r in directory.replicas if not r.future]
    return LogDirRow(
        path=directory.path,
        state=directory.state,
        replicas=len(current) if known else None,
        size_bytes=sum(r.size_bytes for r in current) if known else None,
        total_bytes=directory.total_bytes,
        free_bytes=directory.free_bytes,
        probe_ms=directory.probe_ms,
    )
