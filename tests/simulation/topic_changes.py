"""An operator who changes topics while a world runs: topics that belong together get more partitions, one after the other in any order, and configs change.

The times are drawn from a random generator of their own. Changes that come after the faults have an effect, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random

from tests.simulation.cluster import Cluster
from tests.simulation.world import S

GROWTH_S = 7
"""The topics that belong together grow within this time."""
CONFIG_S = (0.5, 3)
"""Pauses between two changes of configs."""
RETENTIONS: tuple[dict[str, str], ...] = (
    {"retention_ms": "1"},
    {"retention_ms": "1500"},
    {"retention_ms": "-1"},
    {"retention_bytes": "1"},
    {"retention_bytes": "3000"},
    {"retention_bytes": "-1"},
)
POLICIES: tuple[dict[str, str], ...] = ({"cleanup_policy": "compact"}, {"cleanup_policy": "delete"})


def front_configs(segment_bytes: str) -> tuple[dict[str, str], ...]:
    """Changes of a front topic. Only the size of segments has an effect: the broker does not apply retention and compaction to front topics."""
    return (*RETENTIONS, {"segment_bytes": segment_bytes}, *POLICIES)


class TopicOperator:
    def __init__(
        self,
        cluster: Cluster,
        duration_s: float,
        together: Sequence[str],
        counts: Sequence[int],
        grown: Callable[[str, int], None],
        configs: Mapping[str, Sequence[Mapping[str, str]]],
        rng: Random | None = None,
    ) -> None:
        """`together`: topics that grow to each of `counts`. `grown`: called with the topic and the number of partitions. `configs`: changes by topic.
        `rng`: in worlds with several operators.
        """
        self.cluster, self.world, self._grown, self._configs = cluster, cluster.world, grown, configs
        self._rng = rng or Random(self.world.seed)
        self._until_us = self.world.now_us + int(duration_s * S)
        at_us = sorted(self._rng.randint(0, int(max(0.0, duration_s - GROWTH_S) * S)) for _ in counts)
        for start_us, count in zip(at_us, counts, strict=True):
            for name in together:
                self.world.after(start_us + self._rng.randint(0, GROWTH_S * S), partial(self._grow, name, count))
        if configs:
            self._next()

    def _grow(self, name: str, count: int) -> None:
        if self.cluster.topics[name].partitions < count:
            self.world.deliver(f"an operator adds partitions to {name}: {count}")
            self.world.reached["topic grows"] += 1
            self.cluster.grow_topic(name, count)
            self._grown(name, count)

    def _next(self) -> None:
        self.world.after(int(self._rng.uniform(*CONFIG_S) * S), self._configure)

    def _configure(self) -> None:
        if self.world.now_us >= self._until_us:
            return
        name = self._rng.choice(sorted(self._configs))
        configs = self._rng.choice(self._configs[name])
        self.world.deliver(f"an operator changes {name}: {configs}")
        self.world.reached[f"config changed: {name}"] += 1
        self.cluster.change_topic(name, **configs)
        self._next()
