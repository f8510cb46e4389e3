"""The state of a ZooKeeper server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ServerMode(StrEnum):
    """`other`: a mode that this version of Weir does not know, such as observer."""

    LEADER = "leader"
    FOLLOWER = "follower"
    STANDALONE = "standalone"
    OTHER = "other"


class ServerProblem(StrEnum):
    """The reason why the state of a ZooKeeper server is unknown."""

    UNREACHABLE = "unreachable"
    NOT_SERVING = "not_serving"
    NOT_PERMITTED = "not_permitted"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """Latencies of requests in milliseconds, since the start of the server or the last reset of its statistics. `zxid`: the last transaction."""

    mode: ServerMode
    version: str
    latency_min_ms: float
    latency_mean_ms: float
    latency_max_ms: float
    received: int
    sent: int
    connections: int
    outstanding: int
    zxid: str
    znodes: int
