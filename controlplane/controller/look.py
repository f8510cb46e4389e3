"""One look of the controller: what lies before it, and what it has decided so far, which becomes one append.

Laws: whoever decides reads through what this look has decided already; a partition that changes several times in one look is one record, at the place
of its first change, one partition epoch above the image's. A look lives for one call and remembers nothing. Made by `core`, handed to what decides
(`brokers`, `proposals`, `asked`, `wanted`, `leaders`). Must not come in: a rule of what is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.cordons import cordoned, shunned
from brokerd.cluster.election import Incarnation
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import MetadataLevelRaised, PartitionChanged, Record, RequestAnswered
from brokerd.cluster.model import NO_LEADER, BrokerState, PartitionState, Seat, TopicPartition, TopicState
from brokerd.cluster.znodes import Registration
from controlplane.controller.events import AppendMetadata, ChangeMade, Effect, Report

Offline = Mapping[int, tuple[int, frozenset[TopicPartition]]]
"""Per broker: its incarnation, and the copies that it says it cannot serve."""


@dataclass(slots=True)
class Look:
    image: Image
    registrations: Mapping[int, Registration]
    leaving: set[Seat]
    offline: Offline
    broker_defaults: Mapping[str, str]
    decided: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    """Partitions as they are once this look's records are applied; the others stand in the image."""
    effects: list[Effect] = field(default_factory=list)
    made: list[ChangeMade] = field(default_factory=list)
    """To be told once this look's records stand in the log."""
    _records: list[Record | None] = field(default_factory=list)
    _places: dict[TopicPartition, int] = field(default_factory=dict)
    _answered: list[str] = field(default_factory=list)

    # -- what lies before it ---------------------------------------------------------------------------------------------
    def state(self, tp: TopicPartition) -> PartitionState | None:
        return self.decided.get(tp) or self.image.partition(tp)

    def incarnation(self, broker_id: int) -> int | None:
        """Of a broker that may lead: registered, of this cluster, not on its way out."""
        r = self.registrations.get(broker_id)
        if r is None or Seat(broker_id, r.incarnation) in self.leaving:
            return None
        return r.incarnation

    def serving(self, tp: TopicPartition) -> Incarnation:
        """`incarnation` for one partition: a broker whose copy of it is offline cannot lead it."""

        def incarnation(broker_id: int) -> int | None:
            current = self.incarnation(broker_id)
            return None if self.is_offline(broker_id, current, tp) else current

        return incarnation

    def is_offline(self, broker_id: int, incarnation: int | None, tp: TopicPartition) -> bool:
        told = self.offline.get(broker_id)
        return told is not None and told[0] == incarnation and tp in told[1]

    def config(self, topic: TopicState) -> TopicConfig:
        return TopicConfig.from_overrides(topic.configs, self.broker_defaults)

    def open(self) -> list[BrokerState]:
        """Who may be given a replica."""
        return [b for b in self.live() if not cordoned(self.image.broker_configs.get(b.broker_id, (0, {}))[1])]

    def shunned(self) -> frozenset[int]:
        """Whom an operator has taken leadership from."""
        return frozenset(b for b, (_, configs) in self.image.broker_configs.items() if shunned(configs))

    def live(self) -> list[BrokerState]:
        return [
            BrokerState(
                r.broker_id, r.incarnation, r.broker_uuid, r.host, r.port, r.rack, r.failure_domain, True, r.endpoints
            )
            for _, r in sorted(self.registrations.items())
            if self.incarnation(r.broker_id) is not None
        ]

    def level(self) -> int:
        """Of the log once this look's records are in it."""
        raised = [r.level for r in self._records if isinstance(r, MetadataLevelRaised)]
        return max(self.image.metadata_version, *raised) if raised else self.image.metadata_version

    # -- what it decides -------------------------------------------------------------------------------------------------
    def add(self, *records: Record) -> None:
        self._records += records

    def put(self, tp: TopicPartition, state: PartitionState | None) -> None:
        """None: nothing changes."""
        if state is None:
            return
        before = self.image.partition(tp)
        if before is not None:
            self._tell_of_loss(tp, before, state)
            state = replace(state, partition_epoch=before.partition_epoch + 1)
        self.decided[tp] = state
        at = self._places.setdefault(tp, len(self._records))
        self._records[at : at + 1] = [PartitionChanged(tp.topic_id, tp.partition, state)]

    def take_back(self, tp: TopicPartition) -> None:
        """Its topic goes: what was decided about it is void."""
        if self.decided.pop(tp, None) is not None:
            self._records[self._places.pop(tp)] = None

    def report(self, kind: str, subject: str, text: str) -> None:
        self.effects.append(Report(kind, subject, text))

    def answer(self, request_id: str, error: int, message: str | None, result: Mapping[str, Any]) -> None:
        self.add(RequestAnswered(request_id, error, message, result))
        self._answered.append(request_id)

    def append(self) -> AppendMetadata | None:
        """All that was decided, None for nothing."""
        records = tuple(r for r in self._records if r is not None)
        return AppendMetadata(records, tuple(self._answered)) if records or self._answered else None

    def _tell_of_loss(self, tp: TopicPartition, before: PartitionState, after: PartitionState) -> None:
        """A leader that could not prove to hold what was acknowledged: somebody allowed it, and somebody should know."""
        proven = {*before.isr_ids, *before.elr, *before.last_isr}
        if after.leader != NO_LEADER and after.leader != before.leader and after.leader not in proven:
            name = self.image.topics[tp.topic_id].name
            text = f"broker {after.leader} was elected uncleanly; what only {sorted(proven) or 'others'} held is lost"
            self.report("unclean", f"partition {name}-{tp.partition}", text)
