"""Ordinary worlds in which each broker has two log directories, and an operator moves replicas between them all the time. `python -m tests.simulation
--log-dirs`. The rules are those of `run`. A failing disk fails one operation in one directory.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import AlterReplicaLogDirsRequest
from tests.simulation import run
from tests.simulation.clients import Client
from tests.simulation.cluster import Cluster
from tests.simulation.world import S

DIRS = ("/disk-a", "/disk-b")
PAUSE_MS = (100, 900)


class LogDirOperator(Client):
    """Moves a random replica to a random directory of its broker, again and again."""

    def __init__(self, cluster: Cluster, duration_s: float) -> None:
        super().__init__(cluster, "log-dirs")
        self._until_us = self.world.now_us + int(duration_s * S)
        self.enter(self._next)

    def _next(self) -> None:
        if self.world.now_us < self._until_us:
            self.call_later(self._move, self.world.between(*PAUSE_MS))

    def _move(self) -> None:
        placed = [(b, t.name, i) for t, i, s in self.cluster.image.each_partition() for b in s.replicas]
        broker_id, name, index = self.world.rng.choice(placed)
        r = AlterReplicaLogDirsRequest
        topics = [r.AlterReplicaLogDirTopic(name=name, partitions=[index])]
        body = r(dirs=[r.AlterReplicaLogDir(path=self.world.rng.choice(DIRS), topics=topics)])

        def on_response(response: Any) -> None:
            if response is not None:
                error = ErrorCode(response.results[0].partitions[0].error_code)
                self.world.reached[f"move between directories: {error.name}"] += 1
            self._next()

        self.send_request(broker_id, ApiKey.ALTER_REPLICA_LOG_DIRS, 2, body, on_response)


def change(cluster: Cluster, duration_s: float) -> None:
    LogDirOperator(cluster, duration_s)


live = partial(run.live, settings={"log.dirs": ",".join(DIRS)}, change=change)
