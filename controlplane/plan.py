"""From what is asked to a placement per partition: pure. What the preview shows is what runs.

Law: decides from the rows it is given and nothing else; a partition that needs no change is not in the plan; a problem is a value.
Called by `services.planning`. Must not come in: the database, the clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from controlplane import balance
from controlplane.placed import BrokerView, PartitionView
from controlplane.words import size_text, some

__all__ = ["BrokerView", "PartitionView", "Plan", "PlannedPart", "plan"]


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """`bytes_to_copy` None = the size is not known. `isr_min` is the smallest ISR that can result while it runs."""

    view: PartitionView
    replicas_to: tuple[int, ...]
    bytes_to_copy: int | None
    isr_min: int


@dataclass(frozen=True, slots=True)
class Plan:
    """`problems` refuse the plan (sentences); those in `overridable` are safety refusals, which two people may lift; `warnings` are shown with it."""

    parts: tuple[PlannedPart, ...]
    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    overridable: tuple[str, ...] = ()

    def incoming(self) -> dict[int, int]:
        """Bytes that each broker gets, of those whose size is known."""
        out: dict[int, int] = {}
        for p in self.parts:
            for b in set(p.replicas_to) - set(p.view.replicas):
                out[b] = out.get(b, 0) + (p.view.size_bytes or 0)
        return out

    def outgoing(self) -> dict[int, int]:
        """Bytes that each broker is rid of in the end."""
        out: dict[int, int] = {}
        for p in self.parts:
            for b in set(p.view.replicas) - set(p.replicas_to):
                out[b] = out.get(b, 0) + (p.view.size_bytes or 0)
        return out

    @property
    def bytes_to_copy(self) -> int | None:
        known = [p.bytes_to_copy for p in self.parts]
        return None if any(b is None for b in known) else sum(b for b in known if b is not None)


def plan(scope: Mapping[str, Any], partitions: Sequence[PartitionView], brokers: Sequence[BrokerView]) -> Plan:
    """`scope` is one of
    {"kind": "partitions", "partitions": [{"topic", "partition", "replicas": [..]}, ..]}   a hand-written plan (Kafka's JSON)
    {"kind": "topic", "topic": name, "brokers": [..]}                                     spread a topic over these brokers
    {"kind": "drain", "broker": id}                                                       every replica off this broker
    {"kind": "drain", "rack": name}                                                       every replica off this rack's brokers
    {"kind": "fill", "broker": id}                                                        its fair share onto this broker
    {"kind": "fill", "rack": name}                                                        their fair share onto each of this rack's brokers
    {"kind": "replication_factor", "topic": name, "replication_factor": n}
    {"kind": "rebalance", "goals": [..], "tolerance": 0.1}                                spread over all, by goals (`balance`)
    """
    wanted, problems = _wanted(scope, partitions, brokers)
    known = {b.broker_id: b for b in brokers}
    by_key = {(p.topic_id, p.partition): p for p in partitions}
    parts: list[PlannedPart] = []
    warnings: list[str] = []
    overridable: list[str] = []
    for key, replicas_to in wanted.items():
        view = by_key[key]
        if replicas_to == view.replicas and not view.reassigning:
            continue
        where = f"{view.topic}-{view.partition}"
        new = [b for b in replicas_to if b not in view.replicas]
        if view.reassigning:
            problems.append(f"{where} is being reassigned already; wait for its end or cancel that move.")
        if not replicas_to:
            problems.append(f"{where} would have no replica.")
        if len(set(replicas_to)) != len(replicas_to):
            problems.append(f"{where} names a broker twice: {list(replicas_to)}.")
        for b in replicas_to:
            if b not in known:
                problems.append(f"{where} names broker {b}, which has never registered; known are {sorted(known)}.")
            elif b in new and not known[b].alive:
                problems.append(f"{where} would copy to broker {b}, which is not alive; start it first.")
            elif b in new and known[b].cordoned:
                problems.append(f"{where} would copy to broker {b}, which is cordoned; uncordon it first.")
        if not view.isr or view.leader is None:
            problems.append(f"{where} is offline: there is no leader to copy from. Bring back one of its replicas.")
        if replicas_to and len(replicas_to) < view.min_insync:
            overridable.append(
                f"{where} would have {some(len(replicas_to), 'replica')}, fewer than its min.insync.replicas {view.min_insync}; "
                "acks=all would be refused for ever."
            )
        domains = [known[b].failure_domain for b in replicas_to if b in known and known[b].failure_domain]
        if len(set(domains)) < len(domains):
            problems.append(f"{where} would have two replicas in one failure domain: {domains}.")
        # Old replicas leave only when all new ones are in sync; until then the worst ISR is what is in sync now.
        isr_min = min(len(view.isr), len(replicas_to))
        if len(view.isr) < view.min_insync:
            warnings.append(
                f"{where} has {some(len(view.isr), 'replica')} in sync now, fewer than min.insync.replicas {view.min_insync}."
            )
        copied = None if view.size_bytes is None else view.size_bytes * len(new)
        parts.append(PlannedPart(view, replicas_to, copied, isr_min))
    if not parts and not problems:
        problems.append("Nothing would move: every partition is already placed so.")
    made = Plan(tuple(parts), (*problems, *overridable), tuple(warnings), tuple(overridable))
    too_much, tight = _room(made.incoming(), known)
    return replace(made, problems=(*made.problems, *too_much), warnings=(*made.warnings, *tight))


def _room(incoming: Mapping[int, int], brokers: Mapping[int, BrokerView]) -> tuple[list[str], list[str]]:
    """Brokers whose disk cannot hold what would come, and those with little left after it. Logs grow meanwhile: the rest is no promise."""
    problems, warnings = [], []
    for b, count in sorted(incoming.items()):
        free = brokers[b].free_bytes if b in brokers else None
        if free is None:
            continue
        if count >= free:
            problems.append(
                f"Broker {b} has {size_text(free)} free and would get {size_text(count)}; make room, or move less."
            )
        elif count > free * balance.TIGHT:
            warnings.append(f"Broker {b} would be left with {size_text(free - count)} of {size_text(free)} free.")
    return problems, warnings


Key = tuple[UUID, int]


def _wanted(
    scope: Mapping[str, Any], partitions: Sequence[PartitionView], brokers: Sequence[BrokerView]
) -> tuple[dict[Key, tuple[int, ...]], list[str]]:
    match scope.get("kind"):
        case "partitions":
            return _by_hand(scope.get("partitions") or [], partitions)
        case "topic":
            return _topic_over(str(scope.get("topic")), list(scope.get("brokers") or []), partitions, brokers)
        case "drain" | "fill" as kind:
            if (scope.get("broker") is None) == (scope.get("rack") is None):
                return {}, [f"Name a broker or a rack to {kind}, and not both."]
            rack = scope.get("rack")
            if rack is None:
                named = {int(scope["broker"])}
            elif not (named := {b.broker_id for b in brokers if b.rack == rack}):
                racks = sorted({b.rack for b in brokers if b.rack})
                return {}, [f"There is no rack {rack!r}; {f'known are {racks}' if racks else 'no broker names one'}."]
            return (_drain if kind == "drain" else _fill)(named, partitions, brokers)
        case "replication_factor":
            return _with_factor(str(scope.get("topic")), int(scope["replication_factor"]), partitions, brokers)
        case "rebalance":
            return _rebalanced(scope, partitions, brokers)
        case other:
            return {}, [
                f"{other!r} is no kind of move; use partitions, topic, drain, fill, replication_factor or rebalance."
            ]


def _rebalanced(
    scope: Mapping[str, Any], partitions: Sequence[PartitionView], brokers: Sequence[BrokerView]
) -> tuple[dict[Key, tuple[int, ...]], list[str]]:
    found = balance.propose(
        partitions, brokers, list(scope.get("goals") or balance.GOALS),
        float(scope.get("tolerance") or balance.TOLERANCE_DEFAULT),
    )  # fmt: skip
    index = {(p.topic, p.partition): p.topic_id for p in partitions}
    return {(index[c.topic, c.partition], c.partition): c.replicas_to for c in found.changes}, []


def _by_hand(
    items: Sequence[Mapping[str, Any]], partitions: Sequence[PartitionView]
) -> tuple[dict[Key, tuple[int, ...]], list[str]]:
    index = {(p.topic, p.partition): p for p in partitions}
    wanted: dict[Key, tuple[int, ...]] = {}
    problems: list[str] = []
    for item in items:
        view = index.get((str(item["topic"]), int(item["partition"])))
        if view is None:
            problems.append(f"There is no partition {item['topic']}-{item['partition']}.")
            continue
        key = (view.topic_id, view.partition)
        if key in wanted:
            problems.append(f"{view.topic}-{view.partition} is named twice.")
        wanted[key] = tuple(int(b) for b in item["replicas"])
    if not items:
        problems.append("No partition is named.")
    return wanted, problems


class _Loads:
    """Replicas and preferred leaders per broker, so that a plan spreads what it moves."""

    def __init__(self, partitions: Sequence[PartitionView], brokers: Sequence[BrokerView]) -> None:
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
        """The candidate to join `keep`: never in a failure domain twice, in a new rack if one is left, then the least loaded."""
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
    leaving: set[int], partitions: Sequence[PartitionView], brokers: Sequence[BrokerView]
) -> tuple[dict[Key, tuple[int, ...]], list[str]]:
    loads = _Loads(partitions, brokers)
    others = [b.broker_id for b in brokers if b.open and b.broker_id not in leaving]
    wanted: dict[Key, tuple[int, ...]] = {}
    problems: list[str] = []
    for p in partitions:
        if leaving.isdisjoint(p.replicas):
            continue
        placed = list(p.replicas)
        for place, broker in enumerate(p.replicas):
            if broker not in leaving:
                continue
            new = loads.choose([b for b in placed if b != broker], others, place == 0)
            if new is None:
                problems.append(
                    f"{p.topic}-{p.partition} has {some(len(p.replicas), 'replica')} and no other living broker that is not cordoned can take the one on {broker}; "
                    "add a broker or lower its replication factor."
                )
                break
            placed[place] = new
        else:
            wanted[p.topic_id, p.partition] = tuple(placed)
    problems += [f"There is no broker {b}." for b in sorted(leaving - loads.brokers.keys())]
    return wanted, problems


def _fill(
    filling: set[int], partitions: Sequence[PartitionView], brokers: Sequence[BrokerView]
) -> tuple[dict[Key, tuple[int, ...]], list[str]]:
    loads = _Loads(partitions, brokers)
    alive = [b.broker_id for b in brokers if b.alive]
    for broker in sorted(filling):
        if broker not in alive:
            return {}, [f"Broker {broker} is not alive; start it first."]
        if loads.brokers[broker].cordoned:
            return {}, [f"Broker {broker} is cordoned; uncordon it first."]
    share = sum(loads.replicas[b] for b in alive) // len(alive)
    placed = {(p.topic_id, p.partition): p.replicas for p in partitions}
    wanted: dict[Key, tuple[int, ...]] = {}
    fullest = sorted(partitions, key=lambda p: -max((loads.replicas.get(b, 0) for b in p.replicas), default=0))
    for broker in sorted(filling):
        for p in fullest:
            if loads.replicas[broker] >= share:
                break
            key = (p.topic_id, p.partition)
            replicas = placed[key]
            # A copy that the rack has already may change its place there; a second one would die with the first.
            there = [b for b in replicas if b in filling]
            donors = [b for b in there or replicas if loads.replicas.get(b, 0) > share]
            if broker in replicas or len(there) > 1 or not donors:
                continue
            donor = max(donors, key=lambda b: (loads.replicas[b], b))
            domains = {loads.domain(b) for b in replicas if b != donor} - {None}
            if loads.domain(broker) in domains:
                continue
            wanted[key] = placed[key] = tuple(broker if b == donor else b for b in replicas)
            loads.replicas[broker] += 1
            loads.replicas[donor] -= 1
    return wanted, []


def _topic_over(
    topic: str, over: list[int], partitions: Sequence[PartitionView], brokers: Sequence[BrokerView]
) -> tuple[dict[Key, tuple[int, ...]], list[str]]:
    mine = [p for p in partitions if p.topic == topic]
    if not mine:
        return {}, [f"There is no topic {topic!r}."]
    if not over:
        return {}, ["No broker is named to move to."]
    loads = _Loads([], brokers)
    wanted: dict[Key, tuple[int, ...]] = {}
    for p in mine:
        chosen: list[int] = []
        for place in range(len(p.replicas)):
            new = loads.choose(chosen, over, place == 0)
            if new is None:
                return {}, [
                    f"{topic}-{p.partition} has {len(p.replicas)} replicas; brokers {over} offer {len(chosen)} places."
                ]
            chosen.append(new)
        # Keep whoever already holds a copy where the set is the same: only the order would change.
        wanted[p.topic_id, p.partition] = p.replicas if set(chosen) == set(p.replicas) else tuple(chosen)
    return wanted, []


def _with_factor(
    topic: str, factor: int, partitions: Sequence[PartitionView], brokers: Sequence[BrokerView]
) -> tuple[dict[Key, tuple[int, ...]], list[str]]:
    mine = [p for p in partitions if p.topic == topic]
    if not mine:
        return {}, [f"There is no topic {topic!r}."]
    if factor < 1:
        return {}, [f"Replication factor {factor} is too small; at least 1 is needed."]
    loads = _Loads(partitions, brokers)
    alive = [b.broker_id for b in brokers if b.open]
    wanted: dict[Key, tuple[int, ...]] = {}
    for p in mine:
        if factor <= len(p.replicas):
            # Keep the leader and who is in sync; drop the rest from the end.
            ranked = sorted(p.replicas, key=lambda b: (b != p.leader, b not in p.isr, p.replicas.index(b)))[:factor]
            wanted[p.topic_id, p.partition] = tuple(b for b in p.replicas if b in ranked)
            continue
        chosen = list(p.replicas)
        while len(chosen) < factor:
            new = loads.choose(chosen, alive, False)
            if new is None:
                return {}, [
                    f"{topic}-{p.partition} cannot have {factor} replicas: only {len(alive)} brokers are alive and not cordoned."
                ]
            chosen.append(new)
        wanted[p.topic_id, p.partition] = tuple(chosen)
    return wanted, []
