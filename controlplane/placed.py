"""What placing looks at: brokers and partitions as they are. Values only. Called by `plan` and `balance`, made by `services.moves`."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class BrokerView:
    """`free_bytes` None = not known."""

    broker_id: int
    alive: bool
    rack: str | None
    failure_domain: str | None
    free_bytes: int | None = None
    cordoned: bool = False

    @property
    def open(self) -> bool:
        """It may be given a replica."""
        return self.alive and not self.cordoned


@dataclass(frozen=True, slots=True)
class PartitionView:
    """`records_per_s`: what comes in, as far as it is known; 0 where it is not."""

    topic_id: UUID
    topic: str
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int | None
    generation: int
    size_bytes: int | None
    min_insync: int
    reassigning: bool
    records_per_s: float = 0.0
