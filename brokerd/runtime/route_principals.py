"""The permissions and quotas of the principals of routes, on the broker that leads the source partition.

Invariants: a permission is that of a client with this principal and without an address, so an ACL that names a host applies to no route. Quotas are
those of the user and of the client ID `weir.route.NAME`, and clients of the same entity share the rates. Does not contain: what a route does with them
(`brokerd/delivery/route_principal.py`).
"""

from __future__ import annotations

from brokerd.authz.acls import Operation, Resource
from brokerd.authz.authorizer import Authorizer
from brokerd.authz.quotas import Quotas
from brokerd.cluster.model import Now

NO_HOST = ""
"""The host of a route in ACLs. A route runs on another broker after each election, and its permissions must not change with it."""


class RoutePrincipals:
    def __init__(self, authorizer: Authorizer, quotas: Quotas) -> None:
        self._authorizer, self._quotas = authorizer, quotas

    def allowed(self, principal: str, operation: Operation, topic: str) -> bool:
        if not self._authorizer.enabled:
            return True
        return self._authorizer.acls().allowed(principal, NO_HOST, operation, Resource.TOPIC, topic)

    def quota_limit(self, principal: str, client_id: str, quota: str) -> float | None:
        found = self._find(principal, client_id, quota)
        return None if found is None else found[1]

    def count_bytes(self, principal: str, client_id: str, quota: str, size: int, now: Now) -> int:
        """Return the throttle time of a client after a request of this size, in milliseconds."""
        found = self._find(principal, client_id, quota)
        if found is None:
            return 0
        bucket, limit = found
        rate = self._quotas.rate(quota, bucket)
        rate.add(size, now.mono_ms)
        return rate.throttle_ms(limit, now.mono_ms)

    def _find(self, principal: str, client_id: str, quota: str) -> tuple[str, float] | None:
        """(bucket, limit)."""
        if not self._quotas.active:
            return None
        return self._quotas.limit(quota, principal.partition(":")[2], client_id)
