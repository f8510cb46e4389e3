"""Counters of refused and throttled requests and connections, by reason and by client.

Counters only grow, so two readings give the interval between them. Only a refusal costs time: nothing here is called for a request that is served.
Invariant: at most ADDRESSES_MAX x CLIENTS_PER_ADDRESS_MAX clients are stored. A client chooses its client ID and, where nobody authenticates, nothing
else: invented names remove only other clients of the same address. Does not contain: who refuses, and why.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from brokerd.cluster.refusal_reasons import RefusalReason

ADDRESSES_MAX = 100
"""Maximum number of stored addresses. The one whose last refusal is the oldest is removed."""
CLIENTS_PER_ADDRESS_MAX = 20
"""Maximum number of stored clients per address, for example of the pods behind one address. The one whose last refusal is the oldest is removed."""
CLIENT_ID_CHARS_MAX = 100
NAME_CHARS_MAX = 250
"""Maximum number of characters of the name of a resource: Kafka's topics have at most 249, but a client may send any name."""


class RefusedClient(NamedTuple):
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


@dataclass(slots=True)
class ClientRefusals:
    """`last_ms`: monotonic time of the last refusal. `denial`: the last operation without authorization."""

    counts: dict[RefusalReason, int] = field(default_factory=dict)
    last_ms: int = 0
    denial: Denial | None = None


class Refusals:
    """`now_ms`: the monotonic time."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._now_ms = now_ms
        self.counts: dict[RefusalReason, int] = {}
        self._addresses: OrderedDict[str, OrderedDict[RefusedClient, ClientRefusals]] = OrderedDict()

    def add(
        self,
        reason: RefusalReason,
        address: str,
        client_id: str = "",
        principal: str = "",
        denial: Denial | None = None,
    ) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1
        clients = self._addresses.setdefault(address, OrderedDict())
        self._addresses.move_to_end(address)
        if len(self._addresses) > ADDRESSES_MAX:
            self._addresses.popitem(last=False)
        client = RefusedClient(address, principal, client_id[:CLIENT_ID_CHARS_MAX])
        found = clients.setdefault(client, ClientRefusals())
        clients.move_to_end(client)
        if len(clients) > CLIENTS_PER_ADDRESS_MAX:
            clients.popitem(last=False)
        found.counts[reason] = found.counts.get(reason, 0) + 1
        found.last_ms = self._now_ms()
        if denial is not None:
            found.denial = denial._replace(resource_name=denial.resource_name[:NAME_CHARS_MAX])

    def latest(self, clients_max: int) -> list[tuple[RefusedClient, ClientRefusals]]:
        """The clients with the latest refusals, the latest first."""
        every = (found for clients in self._addresses.values() for found in clients.items())
        return heapq.nlargest(clients_max, every, key=lambda found: found[1].last_ms)
