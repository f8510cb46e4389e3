"""The ephemeral znodes of the cluster and the ZooKeeper sessions that own them, read in one short connection."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from brokerd.cluster import znodes
from brokerd.cluster.blocking import connected
from brokerd.cluster.store import Store

WAIT_S = 2.0
"""Time limit for the connection, and then for each response."""
SESSION_TIMEOUT_MS = 6_000
BROKERS_MAX = 500
"""Maximum number of brokers of one response. Each broker costs a separate request of a few tenths of a millisecond."""


class SessionOwner(StrEnum):
    BROKER = "broker"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class OwnedZnode:
    """`owner_id`: number of the broker or name of the controller. `session_id`: hexadecimal. `epoch`: the broker epoch, or the controller epoch."""

    owner: SessionOwner
    owner_id: str
    path: str
    session_id: str
    epoch: int


def owned_znodes(store: Store) -> list[OwnedZnode]:
    """The active controller and the registered brokers. Closes `store`. Raises `brokerd.cluster.blocking.Unreachable`."""
    found: list[OwnedZnode] = []
    with connected(store, WAIT_S) as zk:
        controller = zk.get(znodes.CONTROLLER)
        if controller.ok and controller.stat is not None:
            body = json.loads(controller.data)
            found.append(
                OwnedZnode(
                    SessionOwner.CONTROLLER,
                    str(body["controller"]),
                    znodes.CONTROLLER,
                    f"{controller.stat.owner:#x}",
                    body["epoch"],
                )
            )
        for name in sorted(zk.children(znodes.BROKERS), key=lambda n: (len(n), n))[:BROKERS_MAX]:
            path = f"{znodes.BROKERS}/{name}"
            result = zk.get(path)
            if result.ok and result.stat is not None:  # a broker may end between the two requests
                found.append(OwnedZnode(SessionOwner.BROKER, name, path, f"{result.stat.owner:#x}", result.stat.czxid))
    return found
