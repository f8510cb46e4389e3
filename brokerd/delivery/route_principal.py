"""The principal of a route on one source partition: whether the route may read and send now, and the bytes that its quotas count.

Invariants: without a principal everything is allowed and nothing is counted. Bytes are counted once by one leader: bytes written when a target partition has
acknowledged the batch that it appended, bytes read when the route has passed the end of their batch for the first time. As for a client, a batch is never
rejected because of a quota: the route waits after it. A changed limit ends the wait. Does not contain: ACLs and rates (`brokerd/runtime/route_principals.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from brokerd.cluster.model import Now
from brokerd.cluster.quota_entities import FETCH, PRODUCE
from brokerd.delivery.route_port import RoutePort


class QuotaWait(NamedTuple):
    """The route waits for a quota of `principal` until `until_ms`, while the quota has this limit."""

    until_ms: int
    principal: str
    limit: float | None


class RoutePrincipal:
    def __init__(self, port: RoutePort) -> None:
        self._port, self._name = port, ""
        self.may_read = True
        self.read_throttled = self.write_throttled = False
        self._waits: dict[str, QuotaWait] = {}
        """The last wait by quota."""
        self._counted_below = 0
        """Source offset. The bytes read below it are counted."""

    def refresh(self, name: str, now: Now) -> None:
        """Determine the permissions and quotas for this iteration. `name`: the principal of the definition that is in use, empty for none."""
        self._name = name
        self.may_read = not name or self._port.may_read(name)
        self.read_throttled, self.write_throttled = self._waits_for(FETCH, now), self._waits_for(PRODUCE, now)

    @property
    def throttled(self) -> bool:
        return self.read_throttled or self.write_throttled

    def may_write(self, topic: str) -> bool:
        return not self._name or self._port.may_write(self._name, topic)

    def on_written(self, size: int, now: Now) -> None:
        if self._name:
            self._count(PRODUCE, size, now)

    def on_read(self, next_offset: int, size: int, now: Now) -> None:
        """The route has passed a batch of the source, which ends before `next_offset`."""
        if self._name and next_offset > self._counted_below:
            self._counted_below = next_offset
            self._count(FETCH, size, now)

    def _count(self, quota: str, size: int, now: Now) -> None:
        wait_ms = self._port.count_bytes(self._name, quota, size, now)
        if wait_ms:
            limit = self._port.quota_limit(self._name, quota)
            self._waits[quota] = QuotaWait(now.mono_ms + wait_ms, self._name, limit)

    def _waits_for(self, quota: str, now: Now) -> bool:
        wait = self._waits.get(quota)
        if wait is None or now.mono_ms >= wait.until_ms or wait.principal != self._name:
            return False
        return self._port.quota_limit(self._name, quota) == wait.limit
