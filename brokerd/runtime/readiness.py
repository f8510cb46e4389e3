"""Readiness of a broker. A broker is ready when it is registered, and in sync with the leader of each of its partitions. For load balancers, orchestrators
and rolling restarts.

Runs on the thread of the metrics server, like `metrics`. Invariant: a ready broker can be followed by the restart of another one without a partition below
its ISR because of this broker. Does not contain: sockets, the decision of a restart (`controlplane.domain.restart`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from brokerd.cluster.image import Image
from brokerd.runtime.metrics import iterate_with_pauses


class ReadinessState(StrEnum):
    READY = "ready"
    STARTING = "starting"
    """Not registered, or its registration is not in the metadata log that the broker has read."""
    METADATA_STALE = "metadata_stale"
    """ZooKeeper does not answer: the broker does not know whether its replicas are in sync."""
    OUT_OF_SYNC = "out_of_sync"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class Readiness:
    """`partitions_out_of_sync`: those with a replica on this broker that is not in the ISR."""

    state: ReadinessState
    partitions_out_of_sync: int = 0


def partitions_out_of_sync(image: Image, broker_id: int) -> int:
    """Number of partitions whose replica on this broker should be in the ISR and is not. A replica that a move adds is not counted until it is in sync."""
    return sum(
        broker_id in state.replicas and broker_id not in state.adding and broker_id not in state.isr_ids
        for topic in iterate_with_pauses(list(image.topics.values()))
        for state in list(topic.partitions.values())
    )


def readiness(
    broker_id: int,
    image: Callable[[], Image],
    *,
    registered: Callable[[], bool],
    current: Callable[[], bool],
    stopping: Callable[[], bool],
) -> Readiness:
    """The state now. The functions read attributes of the event loop by single calls. `current`: the image is that of the end of the metadata log."""
    if stopping():
        return Readiness(ReadinessState.STOPPING)
    seen = image()
    if not registered() or not seen.alive(broker_id):
        return Readiness(ReadinessState.STARTING)
    if not current():
        return Readiness(ReadinessState.METADATA_STALE)
    behind = partitions_out_of_sync(seen, broker_id)
    return Readiness(ReadinessState.OUT_OF_SYNC if behind else ReadinessState.READY, behind)
