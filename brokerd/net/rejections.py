"""Counters of rejected and throttled requests and connections, by reason and by client, and the latest failed logins of each client.

Counters only grow, so two readings give the interval between them. Only a rejection costs time: nothing here is called for a request that is served.
Invariant: at most ADDRESSES_MAX x CLIENTS_PER_ADDRESS_MAX clients are stored. A client chooses its client ID and, where nobody authenticates, nothing
else: invented names remove only other clients of the same address. A client has at most LOGINS_PER_CLIENT_MAX failed logins: invented users remove
only other users of the same client. Passwords are never passed to this module. Does not contain: who rejects, and why.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.cluster.sasl_failures import SaslFailure

ADDRESSES_MAX = 100
"""Maximum number of stored addresses. The one whose last rejection is the oldest is removed."""
CLIENTS_PER_ADDRESS_MAX = 20
"""Maximum number of stored clients per address, for example of the pods behind one address. The one whose last rejection is the oldest is removed."""
CLIENT_ID_CHARS_MAX = 100
NAME_CHARS_MAX = 250
"""Maximum number of characters of the name of a resource: Kafka's topics have at most 249, but a client may send any name."""
LOGINS_PER_CLIENT_MAX = 5
"""Maximum number of stored failed logins per client, the latest."""
LOGIN_CHARS_MAX = 100
"""Maximum number of characters of the name of a user or a mechanism that a client sent."""


class RejectedClient(NamedTuple):
    """`principal`: empty for a client that is not authenticated. `client_id`: empty for a connection without a request."""

    address: str
    principal: str
    client_id: str


class Denial(NamedTuple):
    """An operation without authorization, with the names of Kafka's enums (WRITE, TOPIC), and the error code of its response."""

    code: int
    operation: str
    resource_type: str
    resource_name: str


class FailedLogin(NamedTuple):
    """`user` and `mechanism`: as the client sent them, "" if it sent none. Characters that cannot be printed are escaped."""

    user: str
    mechanism: str
    failure: SaslFailure


class LoginCount(NamedTuple):
    """`last_ms`: monotonic time of the last one."""

    attempts: int
    last_ms: int


@dataclass(slots=True)
class ClientRejections:
    """`last_ms`: monotonic time of the last rejection. `denial`: the last operation without authorization. `logins`: the last one is the latest."""

    counts: dict[RejectionReason, int] = field(default_factory=dict)
    last_ms: int = 0
    denial: Denial | None = None
    logins: OrderedDict[FailedLogin, LoginCount] = field(default_factory=OrderedDict)


class Rejections:
    """`now_ms`: the monotonic time."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._now_ms = now_ms
        self.counts: dict[RejectionReason, int] = {}
        self._addresses: OrderedDict[str, OrderedDict[RejectedClient, ClientRejections]] = OrderedDict()

    def add(
        self,
        reason: RejectionReason,
        address: str,
        client_id: str = "",
        principal: str = "",
        denial: Denial | None = None,
        login: FailedLogin | None = None,
    ) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1
        clients = self._addresses.setdefault(address, OrderedDict())
        self._addresses.move_to_end(address)
        if len(self._addresses) > ADDRESSES_MAX:
            self._addresses.popitem(last=False)
        client = RejectedClient(address, principal, client_id[:CLIENT_ID_CHARS_MAX])
        found = clients.setdefault(client, ClientRejections())
        clients.move_to_end(client)
        if len(clients) > CLIENTS_PER_ADDRESS_MAX:
            clients.popitem(last=False)
        found.counts[reason] = found.counts.get(reason, 0) + 1
        found.last_ms = self._now_ms()
        if denial is not None:
            found.denial = denial._replace(resource_name=denial.resource_name[:NAME_CHARS_MAX])
        if login is not None:
            tried = FailedLogin(_printable(login.user), _printable(login.mechanism), login.failure)
            earlier = found.logins.pop(tried, None)
            found.logins[tried] = LoginCount(earlier.attempts + 1 if earlier else 1, found.last_ms)
            if len(found.logins) > LOGINS_PER_CLIENT_MAX:
                found.logins.popitem(last=False)

    def latest(self, clients_max: int) -> list[tuple[RejectedClient, ClientRejections]]:
        """The clients with the latest rejections, the latest first."""
        every = (found for clients in self._addresses.values() for found in clients.items())
        return heapq.nlargest(clients_max, every, key=lambda found: found[1].last_ms)


def _printable(text: str) -> str:
    """The beginning of the text, with control characters and marks of the direction of text escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:LOGIN_CHARS_MAX])
