"""The ZooKeeper ensemble as its servers report it, and the sessions of controller and brokers. Read at each request, at most some seconds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from django.conf import settings

from brokerd.cluster.blocking import Unreachable
from brokerd.cluster.zookeeper import servers_of
from controlplane.clients.settings import zookeeper_protection, zookeeper_store
from controlplane.clients.zookeeper_servers import ServerResponse, server_states
from controlplane.clients.zookeeper_sessions import SESSION_TIMEOUT_MS, OwnedZnode, SessionOwner, owned_znodes
from controlplane.domain.zookeeper_server import ServerMode


@dataclass(frozen=True, slots=True)
class ZooKeeperServerRow:
    """Latencies in milliseconds since the start of the server. `problem` not empty: the server did not report its state; the values are null.
    `detail`: the error of an unreachable server."""

    address: str
    mode: str | None
    version: str | None
    latency_min_ms: float | None
    latency_mean_ms: float | None
    latency_max_ms: float | None
    connections: int | None
    outstanding: int | None
    znodes: int | None
    zxid: str | None
    problem: str
    detail: str


@dataclass(frozen=True, slots=True)
class ZooKeeperSessionRow:
    """`owner`: broker or controller; `owner_id` is the number of the broker or the name of the controller. `epoch`: broker or controller epoch."""

    owner: str
    owner_id: str
    path: str
    session_id: str
    epoch: int

    @property
    def is_of_broker(self) -> bool:
        return self.owner == SessionOwner.BROKER


@dataclass(frozen=True, slots=True)
class ZooKeeperEnsemble:
    """`serving`: servers that answer requests of clients. `quorum`: as many servers must be connected to the leader. `sessions` null: ZooKeeper did not
    respond, `sessions_problem` is the reason."""

    chroot: str
    servers: list[ZooKeeperServerRow]
    serving: int
    quorum: int
    has_leader: bool
    sessions: list[ZooKeeperSessionRow] | None
    sessions_problem: str

    @property
    def is_last_quorum(self) -> bool:
        """A server is missing, and the others are just a quorum."""
        return self.has_leader and self.quorum == self.serving < len(self.servers)


def ensemble() -> ZooKeeperEnsemble:
    text = settings.WEIR.zookeeper
    servers, chroot = servers_of(text)
    protection = zookeeper_protection()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(_sessions, text)
        responses = server_states(servers, protection)
        sessions, problem = reading.result()
    serving = [a.status.mode for a in responses if a.status is not None]
    return ZooKeeperEnsemble(
        chroot,
        [_server_row(a) for a in responses],
        len(serving),
        len(responses) // 2 + 1,
        any(mode in (ServerMode.LEADER, ServerMode.STANDALONE) for mode in serving),
        sessions,
        problem,
    )


def _sessions(hosts: str) -> tuple[list[ZooKeeperSessionRow] | None, str]:
    if not hosts:
        return None, "WEIR_ZOOKEEPER is not set"
    try:
        owned = owned_znodes(zookeeper_store(hosts, SESSION_TIMEOUT_MS))
    except Unreachable as e:
        return None, str(e)
    return [_session_row(z) for z in owned], ""


def _session_row(z: OwnedZnode) -> ZooKeeperSessionRow:
    return ZooKeeperSessionRow(z.owner, z.owner_id, z.path, z.session_id, z.epoch)


def _server_row(a: ServerResponse) -> ZooKeeperServerRow:
    status, address = a.status, f"{a.host}:{a.port}"
    if status is None:
        unknown = (None,) * 9
        return ZooKeeperServerRow(address, *unknown, problem=a.problem or "", detail=a.detail)
    return ZooKeeperServerRow(
        address,
        status.mode,
        status.version,
        status.latency_min_ms,
        status.latency_mean_ms,
        status.latency_max_ms,
        status.connections,
        status.outstanding,
        status.znodes,
        status.zxid,
        "",
        "",
    )
