"""Input of planning: brokers and partitions in their current state. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class PlannerBroker:
    """`free_bytes` None = unknown."""

    broker_id: int
    alive: bool
    rack: str | None
    failure_domain: str | None
    free_bytes: int | None = None
    cordoned: bool = False

    @property
    def open(self) -> bool:
        """True if the broker accepts new replicas."""
        return self.alive and not self.cordoned


@dataclass(frozen=True, slots=True)
class PlannerPartition:
    """`records_per_s`: produce rate; 0 if unknown."""

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
    majority_acks: bool = False
    """The topic has majority acknowledgements."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"
