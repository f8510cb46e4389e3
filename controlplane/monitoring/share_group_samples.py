"""The share groups in the samples of brokers: which ones changed since the last round. Memory only: pages read the groups from the brokers.

Invariant: a group is forgotten only after a round in which every broker answered.
"""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.clients.broker_samples import BrokerSample
from controlplane.clients.share_groups import DescribedShareGroup


class ShareGroupSamples:
    def __init__(self) -> None:
        self.latest: dict[str, DescribedShareGroup] = {}
        self.at_ms: dict[str, int] = {}
        """The time of the last sample of each group."""

    def apply(self, samples: Sequence[BrokerSample], *, complete: bool, now_ms: int) -> tuple[set[str], set[str]]:
        """(changed groups, deleted groups). `complete`: every broker answered. `now_ms`: Unix ms."""
        found: dict[str, DescribedShareGroup] = {}
        for group in (g for s in samples for g in s.share_groups or ()):
            # While the coordinator moves, two brokers may answer. The higher epoch is the newer state.
            if group.group_id not in found or found[group.group_id].epoch < group.epoch:
                found[group.group_id] = group
                self.at_ms[group.group_id] = now_ms
        changed = {name for name, group in found.items() if self.latest.get(name) != group}
        self.latest.update(found)
        complete = complete and all(s.share_groups is not None for s in samples)
        gone = self.latest.keys() - found.keys() if complete else set[str]()
        for name in gone:
            del self.latest[name], self.at_ms[name]
        return changed, gone

    def sampled_at(self, now_ms: int) -> list[DescribedShareGroup]:
        """The groups that were sampled at this time."""
        return [group for name, group in self.latest.items() if self.at_ms[name] == now_ms]
