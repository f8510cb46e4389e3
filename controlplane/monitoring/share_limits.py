"""Share partitions at their limit of records in flight, as their leaders last reported them. Memory only.

Invariant: None = unknown, because the leader has not reported or does not respond. Does not contain: rows (`share_group_lag`), the limit
(`brokerd.sharing`).
"""

from __future__ import annotations

from controlplane.clients.broker_samples import BrokerSample
from controlplane.clients.group_samples import Key


class ShareLimits:
    def __init__(self) -> None:
        self._full: dict[int, frozenset[tuple[str, Key]]] = {}
        """(group, partition) by leader."""

    def apply(self, sample: BrokerSample) -> None:
        """Not every sample has the values: they are requested with the sizes."""
        if sample.share_full is not None:
            self._full[sample.broker_id] = sample.share_full

    def forget(self, broker_id: int) -> None:
        self._full.pop(broker_id, None)

    def is_full(self, group_id: str, key: Key, leader: int | None) -> bool | None:
        """Return whether the group gets no new record of the partition."""
        found = None if leader is None else self._full.get(leader)
        return None if found is None else (group_id, key) in found
