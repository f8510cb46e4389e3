"""Planning: from a scope to a placement of each partition. Pure. The preview and the move use the same plan.

Invariants: a plan depends on its arguments alone. A partition without a change is not in the plan. A problem is a value, not an exception.
Does not contain: the database, the clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from brokerd.cluster.model import effective_min_insync
from controlplane.domain import balance
from controlplane.domain import planner_phrases as texts
from controlplane.domain.alert_phrases import AlertPhrase
from controlplane.domain.balance_state import TIGHT
from controlplane.domain.planner_types import PlannerBroker, PlannerPartition
from controlplane.domain.scope import (
    DrainScope,
    FillScope,
    PartitionsScope,
    Placement,
    RebalanceScope,
    ReplicationFactorScope,
    Scope,
    TopicScope,
)
from controlplane.domain.text import size_text
from weir_common.phrases import Phrase, Value, counted, number_of, sentence

__all__ = ["ComputedPlan", "PlannedPart", "PlannerBroker", "PlannerPartition", "plan"]


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """`bytes_to_copy` None = unknown size. `isr_min`: the smallest ISR that can occur during the move."""

    view: PlannerPartition
    replicas_to: tuple[int, ...]
    bytes_to_copy: int | None
    isr_min: int


@dataclass(frozen=True, slots=True)
class ComputedPlan:
    """`problems` (sentences) prevent the plan. Those in `overridable` are safety rules, which two operators can override.
    `warnings` do not prevent it."""

    parts: tuple[PlannedPart, ...]
    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    overridable: tuple[str, ...] = ()

    def incoming_bytes(self) -> dict[int, int]:
        """Bytes that each broker receives, of partitions with a known size."""
        out: dict[int, int] = {}
        for p in self.parts:
            for b in set(p.replicas_to) - set(p.view.replicas):
                out[b] = out.get(b, 0) + (p.view.size_bytes or 0)
        return out

    def outgoing_bytes(self) -> dict[int, int]:
        """Bytes that each broker deletes at the end."""
        out: dict[int, int] = {}
        for p in self.parts:
            for b in set(p.view.replicas) - set(p.replicas_to):
                out[b] = out.get(b, 0) + (p.view.size_bytes or 0)
        return out

    @property
    def bytes_to_copy(self) -> int | None:
        known = [p.bytes_to_copy for p in self.parts]
        return None if any(b is None for b in known) else sum(b for b in known if b is not None)


def plan(scope: Scope, partitions: Sequence[PlannerPartition], brokers: Sequence[PlannerBroker]) -> ComputedPlan:
    """Place the partitions of `scope`; a scope that cannot be placed gives problems."""
    desired, problems = _desired_replicas(scope, partitions, brokers)
    brokers_by_id = {b.broker_id: b for b in brokers}
    by_key = {(p.topic_id, p.partition): p for p in partitions}
    parts: list[PlannedPart] = []
    warnings: list[str] = []
    overridable: list[str] = []
    for key, replicas_to in desired.items():
        view = by_key[key]
        if replicas_to == view.replicas and not view.reassigning:
            continue
        problems += _problems(view, replicas_to, brokers_by_id)
        min_insync = effective_min_insync(view.min_insync, view.replicas, majority=view.majority_acks)
        if replicas_to and len(replicas_to) < min_insync:
            overridable.append(
                counted(len(replicas_to), *texts.BELOW_MIN_INSYNC, partition=view.name, least=min_insync)
            )
        if len(view.isr) < min_insync:
            warnings.append(counted(len(view.isr), *texts.FEW_IN_SYNC, partition=view.name, least=min_insync))
        parts.append(_planned_part(view, replicas_to))
    if not parts and not problems:
        problems.append(sentence(texts.NOTHING_TO_MOVE))
    computed = ComputedPlan(tuple(parts), (*problems, *overridable), tuple(warnings), tuple(overridable))
    too_much, tight = _disk_space_findings(computed.incoming_bytes(), brokers_by_id)
    return replace(computed, problems=(*computed.problems, *too_much), warnings=(*computed.warnings, *tight))


def _planned_part(view: PlannerPartition, replicas_to: tuple[int, ...]) -> PlannedPart:
    new = [b for b in replicas_to if b not in view.replicas]
    copied = None if view.size_bytes is None else view.size_bytes * len(new)
    # Old replicas are removed only when all new replicas are in sync. Until then the smallest possible ISR is the current one.
    return PlannedPart(view, replicas_to, copied, min(len(view.isr), len(replicas_to)))


def _problems(
    view: PlannerPartition, replicas_to: tuple[int, ...], brokers: Mapping[int, PlannerBroker]
) -> Iterator[str]:
    """The problems of one partition that no operator can override."""
    if view.reassigning:
        yield sentence(texts.ALREADY_REASSIGNED, partition=view.name)
    if not replicas_to:
        yield sentence(texts.NO_REPLICA, partition=view.name)
    if len(set(replicas_to)) != len(replicas_to):
        yield sentence(texts.DUPLICATE_BROKER, partition=view.name, brokers=f"{list(replicas_to)}")
    for broker_id in replicas_to:
        is_new = broker_id not in view.replicas
        if broker_id not in brokers:
            yield sentence(texts.UNKNOWN_BROKER, partition=view.name, broker=broker_id, brokers=f"{sorted(brokers)}")
        elif is_new and not brokers[broker_id].alive:
            yield sentence(texts.TO_DEAD_BROKER, partition=view.name, broker=broker_id)
        elif is_new and brokers[broker_id].cordoned:
            yield sentence(texts.TO_CORDONED_BROKER, partition=view.name, broker=broker_id)
    if not view.isr or view.leader is None:
        yield sentence(texts.OFFLINE, partition=view.name)
    if view.majority_acks and 0 < len(replicas_to) < len(view.replicas):
        before, after = len(view.replicas), len(replicas_to)
        yield sentence(texts.FEWER_VOTERS, partition=view.name, before=before, after=after)
    domains = [brokers[b].failure_domain for b in replicas_to if b in brokers and brokers[b].failure_domain]
    if len(set(domains)) < len(domains):
        yield sentence(texts.ONE_DOMAIN, partition=view.name, domains=f"{domains}")


def _disk_space_findings(
    incoming: Mapping[int, int], brokers: Mapping[int, PlannerBroker]
) -> tuple[list[str], list[str]]:
    """(problems, warnings): brokers without enough disk space for the new replicas, and brokers with little space left. Logs also
    grow during the move."""
    problems: list[str] = []
    warnings: list[str] = []
    for broker_id, count in sorted(incoming.items()):
        free = brokers[broker_id].free_bytes if broker_id in brokers else None
        if free is None:
            continue
        if count >= free:
            problems.append(
                sentence(texts.TOO_LITTLE_SPACE, broker=broker_id, free=size_text(free), size=size_text(count))
            )
        elif count > free * TIGHT:
            warnings.append(
                sentence(texts.LITTLE_SPACE_LEFT, broker=broker_id, rest=size_text(free - count), free=size_text(free))
            )
    return problems, warnings


Key = tuple[UUID, int]


def _desired_replicas(
    scope: Scope, partitions: Sequence[PlannerPartition], brokers: Sequence[PlannerBroker]
) -> tuple[dict[Key, tuple[int, ...]], list[str]]:
    match scope:
        case PartitionsScope(placements, _):
            return _manual_placement(placements, partitions)
        case TopicScope(topic, over):
            return _spread_topic(topic, over, partitions, brokers)
        case DrainScope(broker, rack) | FillScope(broker, rack):
            if (broker is None) == (rack is None):
                return {}, [sentence(texts.BROKER_OR_RACK, operation=scope.KIND)]
            named = {b.broker_id for b in brokers if b.rack == rack} if broker is None else {broker}
            if not named:
                racks = sorted({b.rack for b in brokers if b.rack})
                text = texts.UNKNOWN_RACK if racks else texts.NO_RACKS
                return {}, [sentence(text, rack=repr(rack), racks=f"{racks}")]
            return (_drain if isinstance(scope, DrainScope) else _fill)(named, partitions, brokers)
        case ReplicationFactorScope(topic, factor):
            return _with_factor(topic, factor, partitions, brokers)
        case RebalanceScope():
            return _rebalanced_replicas(scope, partitions, brokers)


def _rebalanced_replicas(
    scope: RebalanceScope, partitions: Sequence[PlannerPartition], brokers: Sequence[PlannerBroker]
) -> tuple[dict[Key, tuple[int, ...]], list[str]]:
    found = balance.propose(partitions, brokers, scope.goals, scope.tolerance)
    index = {(p.topic, p.partition): p.topic_id for p in partitions}
    return {(index[c.topic, c.partition], c.partition): c.replicas_to for c in found.changes}, []


def _manual_placement(
    items: Sequence[Placement], partitions: Sequence[PlannerPartition]
) -> tuple[dict[Key, tuple[int, ...]], list[str]]:
    index = {(p.topic, p.partition): p for p in partitions}
    desired: dict[Key, tuple[int, ...]] = {}
    problems: list[str] = []
    for item in items:
        view = index.get((item.topic, item.partition))
        if view is None:
            problems.append(sentence(texts.NO_PARTITION, partition=f"{item.topic}-{item.partition}"))
            continue
        key = (view.topic_id, view.partition)
        if key in desired:
            problems.append(sentence(texts.LISTED_TWICE, partition=f"{view.topic}-{view.partition}"))
        desired[key] = item.replicas
    if not items:
        problems.append(sentence(texts.NO_PARTITIONS_LISTED))
    return desired, problems


class _Loads:
    """Replicas and preferred leaders per broker, for an even distribution of the moved replicas."""

    def __init__(self, partitions: Sequence[PlannerPartition], brokers: Sequence[PlannerBroker]) -> None:
        self.brokers = {b.broker_id: b for b in brokers}
        self.replicas = dict.fromkeys(self.brokers, 0)
        self.leaders = dict.fromkeys(self.brokers, 0)
        for p in partitions:
            for b in p.replicas:
                self.replicas[b] = self.replicas.get(b, 0) + 1
            if p.replicas:
                self.leaders[p.replicas[0]] = self.leaders.get(p.replicas[0], 0) + 1

    def domain(self, broker_id: int) -> str | None:
        b = self.brokers.get(broker_id)
        return b.failure_domain if b is not None else None

    def rack(self, broker_id: int) -> str | None:
        b = self.brokers.get(broker_id)
        return b.rack if b is not None else None

    def choose(self, keep: Sequence[int], candidates: Sequence[int], first: bool) -> int | None:
        """The candidate to join `keep`: never in a failure domain that `keep` already has, in a new rack if possible, then the least loaded broker."""
        domains = {self.domain(b) for b in keep} - {None}
        racks = {self.rack(b) for b in keep} - {None}
        free = [b for b in candidates if b not in keep and self.domain(b) not in domains]
        if not free:
            return None
        load = self.leaders if first else self.replicas
        best = min(free, key=lambda b: (self.rack(b) in racks, load.get(b, 0), self.replicas.get(b, 0), b))
        self.replicas[best] = self.replicas.get(best, 0) + 1
        if first:
            self.leaders[best] = self.leaders.get(best, 0) + 1
        return best


def _drain(
    leaving: set[int], partitions: Sequence[PlannerPartition], brokers: Sequence[PlannerBroker]
) -> tuple[dict[Key, tuple[int, ...]], list[str]]:
    loads = _Loads(partitions, brokers)
    others = [b.broker_id for b in brokers if b.open and b.broker_id not in leaving]
    desired: dict[Key, tuple[int, ...]] = {}
    unplaceable: dict[tuple[int, int], list[str]] = {}
    for partition in partitions:
        if leaving.isdisjoint(partition.replicas):
            continue
        placed = list(partition.replicas)
        for place, broker in enumerate(partition.replicas):
            if broker not in leaving:
                continue
            new = loads.choose([b for b in placed if b != broker], others, place == 0)
            if new is None:
                unplaceable.setdefault((broker, len(partition.replicas)), []).append(
                    f"{partition.topic}-{partition.partition}"
                )
                break
            placed[place] = new
        else:
            desired[partition.topic_id, partition.partition] = tuple(placed)
    problems = [_no_target_problem(names, broker, factor) for (broker, factor), names in sorted(unplaceable.items())]
    problems += [sentence(texts.NO_BROKER, broker=b) for b in sorted(leaving - loads.brokers.keys())]
    return desired, problems


NAMED_MAX = 5
"""Maximum number of partitions that one sentence names. A list of a hundred partitions would hide the instruction."""


def _no_target_problem(names: Sequence[str], broker: int, factor: int) -> str:
    more = len(names) - NAMED_MAX
    shown: Value = list(names[:NAMED_MAX])
    if more > 0:
        shown = Phrase(AlertPhrase.AND_MORE, {"names": shown, "rest": f"{more}"})
    return sentence(
        texts.NOWHERE_TO_GO if len(names) == 1 else texts.NOWHERE_TO_GO_MANY,
        partitions=shown,
        replicas=number_of(factor, *AlertPhrase.REPLICAS),
        broker=broker,
    )


def _fill(
    filling: set[int], partitions: Sequence[PlannerPartition], brokers: Sequence[PlannerBroker]
) -> tuple[dict[Key, tuple[int, ...]], list[str]]:
    loads = _Loads(partitions, brokers)
    alive = [b.broker_id for b in brokers if b.alive]
    for broker in sorted(filling):
        if broker not in alive:
            return {}, [sentence(texts.BROKER_NOT_ALIVE, broker=broker)]
        if loads.brokers[broker].cordoned:
            return {}, [sentence(texts.BROKER_CORDONED, broker=broker)]
    share = sum(loads.replicas[b] for b in alive) // len(alive)
    placed = {(p.topic_id, p.partition): p.replicas for p in partitions}
    desired: dict[Key, tuple[int, ...]] = {}
    fullest = sorted(partitions, key=lambda p: -max((loads.replicas.get(b, 0) for b in p.replicas), default=0))
    for broker in sorted(filling):
        for p in fullest:
            if loads.replicas[broker] >= share:
                break
            key = (p.topic_id, p.partition)
            replicas = placed[key]
            # A replica that is already in the rack may move within it. A second replica in the rack would fail together with the first.
            there = [b for b in replicas if b in filling]
            donors = [b for b in there or replicas if loads.replicas.get(b, 0) > share]
            if broker in replicas or len(there) > 1 or not donors:
                continue
            donor = max(donors, key=lambda b: (loads.replicas[b], b))
            domains = {loads.domain(b) for b in replicas if b != donor} - {None}
            if loads.domain(broker) in domains:
                continue
            desired[key] = placed[key] = tuple(broker if b == donor else b for b in replicas)
            loads.replicas[broker] += 1
            loads.replicas[donor] -= 1
    return desired, []


def _spread_topic(
    topic: str, broker_ids: Sequence[int], partitions: Sequence[PlannerPartition], brokers: Sequence[PlannerBroker]
) -> tuple[dict[Key, tuple[int, ...]], list[str]]:
    topic_partitions = [p for p in partitions if p.topic == topic]
    if not topic_partitions:
        return {}, [sentence(texts.NO_TOPIC, topic=repr(topic))]
    if not broker_ids:
        return {}, [sentence(texts.NO_TARGETS)]
    loads = _Loads([], brokers)
    desired: dict[Key, tuple[int, ...]] = {}
    for partition in topic_partitions:
        chosen: list[int] = []
        for place in range(len(partition.replicas)):
            new = loads.choose(chosen, broker_ids, place == 0)
            if new is None:
                return {}, [
                    sentence(
                        texts.NO_ROOM,
                        partition=f"{topic}-{partition.partition}",
                        replicas=len(partition.replicas),
                        brokers=f"{broker_ids}",
                        room=len(chosen),
                    )
                ]
            chosen.append(new)
        # The same set of brokers keeps its order: a change would only reorder the replicas.
        desired[partition.topic_id, partition.partition] = (
            partition.replicas if set(chosen) == set(partition.replicas) else tuple(chosen)
        )
    return desired, []


def _with_factor(
    topic: str, factor: int, partitions: Sequence[PlannerPartition], brokers: Sequence[PlannerBroker]
) -> tuple[dict[Key, tuple[int, ...]], list[str]]:
    mine = [p for p in partitions if p.topic == topic]
    if not mine:
        return {}, [sentence(texts.NO_TOPIC, topic=repr(topic))]
    if factor < 1:
        return {}, [sentence(texts.FACTOR_TOO_SMALL, factor=factor)]
    loads = _Loads(partitions, brokers)
    alive = [b.broker_id for b in brokers if b.open]
    factor_before = {(p.topic_id, p.partition): len(p.replicas) for p in mine}
    desired: dict[Key, tuple[int, ...]] = {}
    for partition in mine:
        if factor <= len(partition.replicas):
            # The leader and the in-sync replicas stay; the others are removed from the end.
            ranked = sorted(
                partition.replicas,
                key=lambda b: (b != partition.leader, b not in partition.isr, partition.replicas.index(b)),
            )[:factor]
            desired[partition.topic_id, partition.partition] = tuple(b for b in partition.replicas if b in ranked)
            continue
        chosen = list(partition.replicas)
        while len(chosen) < factor:
            new = loads.choose(chosen, alive, False)
            if new is None:
                return {}, [
                    sentence(
                        texts.TOO_FEW_BROKERS,
                        partition=f"{topic}-{partition.partition}",
                        replicas=factor,
                        brokers=len(alive),
                    )
                ]
            chosen.append(new)
        desired[partition.topic_id, partition.partition] = tuple(chosen)
    grown = {k: r for k, r in desired.items() if len(r) > factor_before[k]}
    return desired | _leaders_spread(grown, Counter(r[0] for k, r in desired.items() if k not in grown)), []


def _leaders_spread(placed: Mapping[Key, tuple[int, ...]], elsewhere: Mapping[int, int]) -> dict[Key, tuple[int, ...]]:
    """The same replicas, with another preferred leader if its broker leads at least two partitions fewer. No more leaders change than an even
    distribution needs. Without this step, all partitions of a topic that had one replica would keep one leader. `elsewhere`: other leaders of
    the topic."""
    out = dict(placed)
    leads = Counter(elsewhere)
    leads.update(r[0] for r in out.values())
    changed = True
    while changed:
        changed = False
        for key, replicas in out.items():
            least = min(replicas, key=lambda b: (leads[b], replicas.index(b)))
            if leads[replicas[0]] - leads[least] >= 2:
                leads[replicas[0]] -= 1
                leads[least] += 1
                out[key] = (least, *(b for b in replicas if b != least))
                changed = True
    return out
