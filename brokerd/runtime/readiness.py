"""Readiness of a broker, for load balancers, orchestrators and rolling restarts. A broker is ready when it is registered and each of its replicas is in the
ISR.

Runs on the thread of the metrics server, like `metrics`. Invariant: when a broker is ready, another broker can be restarted, and the ready broker
does not cause a partition to fall below its minimum ISR. Does not contain: sockets, the decision of a restart (`controlplane.domain.restart`).
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
    """The broker is not registered, or it has not yet read its registration in the metadata log."""
    METADATA_STALE = "metadata_stale"
    """ZooKeeper does not respond: the broker does not know whether its replicas are in sync."""
    OUT_OF_SYNC = "out_of_sync"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class Readiness:
    """`partitions_out_of_sync` is the number of partitions whose replica on this broker is not in the ISR."""

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
    """The current readiness. Each function reads an attribute of the event loop with one call. `current`: whether the image has reached the end of the
    metadata log."""
    if stopping():
        return Readiness(ReadinessState.STOPPING)
    seen = image()
    if not registered() or not seen.alive(broker_id):
        return Readiness(ReadinessState.STARTING)
    if not current():
        return Readiness(ReadinessState.METADATA_STALE)
    behind = partitions_out_of_sync(seen, broker_id)
    return Readiness(ReadinessState.OUT_OF_SYNC if behind else ReadinessState.READY, behind)
