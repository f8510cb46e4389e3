"""Scope of a move: the replicas that an operator requested to move. One frozen dataclass per kind, and the JSON of REST, forms and rows.

Pure. Does not contain: the placement that follows from a scope (`planner`), the texts that describe a scope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

from controlplane.domain import balance
from weir_common.json_values import JsonObject


class ScopeKind(StrEnum):
    PARTITIONS = "partitions"
    TOPIC = "topic"
    DRAIN = "drain"
    FILL = "fill"
    REPLICATION_FACTOR = "replication_factor"
    REBALANCE = "rebalance"


class ScopeError(ValueError):
    """A value that is no scope. The text names the problem."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The replicas that a partition gets, the preferred leader first."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartitionsScope:
    """A manual placement, as in Kafka's reassignment file. `count`: rows store the first of many placements only, and their number."""

    KIND: ClassVar[ScopeKind] = ScopeKind.PARTITIONS
    partitions: tuple[Placement, ...] = ()
    count: int | None = None


@dataclass(frozen=True, slots=True)
class TopicScope:
    """Spread a topic over these brokers."""

    KIND: ClassVar[ScopeKind] = ScopeKind.TOPIC
    topic: str
    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DrainScope:
    """Move every replica off this broker, or off the brokers of this rack. Exactly one of both is set; `planner.plan` reports anything else."""

    KIND: ClassVar[ScopeKind] = ScopeKind.DRAIN
    broker: int | None = None
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class FillScope:
    """Move a fair share of replicas to this broker, or to each broker of this rack. Exactly one of both is set."""

    KIND: ClassVar[ScopeKind] = ScopeKind.FILL
    broker: int | None = None
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class ReplicationFactorScope:
    KIND: ClassVar[ScopeKind] = ScopeKind.REPLICATION_FACTOR
    topic: str
    replication_factor: int


@dataclass(frozen=True, slots=True)
class RebalanceScope:
    """Spread over all brokers, by goals (`balance`), the most important first. `tolerance`: fraction of the mean."""

    KIND: ClassVar[ScopeKind] = ScopeKind.REBALANCE
    goals: tuple[str, ...] = balance.GOALS
    tolerance: float = balance.TOLERANCE_DEFAULT


Scope: TypeAlias = PartitionsScope | TopicScope | DrainScope | FillScope | ReplicationFactorScope | RebalanceScope
KINDS = tuple(ScopeKind)


def parse(value: object) -> Scope:
    """The scope in this JSON value. Raises ScopeError.

    {"kind": "partitions", "partitions": [{"topic", "partition", "replicas": [..]}, ..]}
    {"version": 1, "partitions": [..]}: Kafka's reassignment file; log directories other than "any" are rejected
    {"kind": "topic", "topic": name, "brokers": [..]}
    {"kind": "drain" or "fill", "broker": id} or {.., "rack": name}
    {"kind": "replication_factor", "topic": name, "replication_factor": n}
    {"kind": "rebalance", "goals": [..], "tolerance": 0.1}
    """
    if not isinstance(value, Mapping):
        raise ScopeError("A scope is an object with a kind.")
    kind = value.get("kind")
    if "kind" not in value and isinstance(value.get("partitions"), list):
        kind = PartitionsScope.KIND
        _no_log_dirs(value["partitions"])
    try:
        match kind:
            case ScopeKind.PARTITIONS:
                count = value.get("count")
                placements = tuple(
                    Placement(str(p["topic"]), int(p["partition"]), tuple(int(b) for b in p["replicas"]))
                    for p in value.get("partitions") or ()
                )
                return PartitionsScope(placements, None if count is None else int(count))
            case ScopeKind.TOPIC:
                return TopicScope(str(value.get("topic")), tuple(int(b) for b in value.get("brokers") or ()))
            case ScopeKind.DRAIN:
                return DrainScope(*_broker_or_rack(value))
            case ScopeKind.FILL:
                return FillScope(*_broker_or_rack(value))
            case ScopeKind.REPLICATION_FACTOR:
                return ReplicationFactorScope(str(value.get("topic")), int(value["replication_factor"]))
            case ScopeKind.REBALANCE:
                goals = tuple(str(g) for g in value.get("goals") or balance.GOALS)
                return RebalanceScope(goals, float(value.get("tolerance") or balance.TOLERANCE_DEFAULT))
    except (AttributeError, KeyError, TypeError, ValueError) as e:
        raise ScopeError(f"Invalid scope: {e!r}. It needs a kind and the fields of that kind.") from e
    raise ScopeError(f"Unknown kind of move {kind!r}; use {', '.join(KINDS[:-1])} or {KINDS[-1]}.")


def _broker_or_rack(value: Mapping[str, Any]) -> tuple[int | None, str | None]:
    broker, rack = value.get("broker"), value.get("rack")
    return None if broker is None else int(broker), None if rack is None else str(rack)


def _no_log_dirs(partitions: Sequence[object]) -> None:
    """A broker chooses the directory of a replica."""
    for p in partitions:
        if isinstance(p, Mapping) and any(d != "any" for d in p.get("log_dirs") or ()):
            raise ScopeError(
                f"log_dirs {p['log_dirs']} are not supported here; remove them, and move replicas between log directories later."
            )


def to_json(scope: Scope) -> JsonObject:
    """The JSON value that `parse` reads."""
    head: JsonObject = {"kind": scope.KIND.value}
    match scope:
        case PartitionsScope(partitions, count):
            body: JsonObject = {
                "partitions": [
                    {"topic": p.topic, "partition": p.partition, "replicas": list(p.replicas)} for p in partitions
                ]
            }
            return head | body | ({} if count is None else {"count": count})
        case TopicScope(topic, brokers):
            return head | {"topic": topic, "brokers": list(brokers)}
        case DrainScope(broker, rack) | FillScope(broker, rack):
            return head | ({} if broker is None else {"broker": broker}) | ({} if rack is None else {"rack": rack})
        case ReplicationFactorScope(topic, factor):
            return head | {"topic": topic, "replication_factor": factor}
        case RebalanceScope(goals, tolerance):
            return head | {"goals": list(goals), "tolerance": tolerance}


def short_name(scope: Scope) -> str:
    """The topic, the broker or the rack that the scope names, else its kind: the object name of an audit row."""
    match scope:
        case TopicScope(topic, _) | ReplicationFactorScope(topic, _):
            return topic[:255] or scope.KIND.value
        case DrainScope(broker, rack) | FillScope(broker, rack):
            return str(rack or scope.KIND.value if broker is None else broker)[:255]
    return scope.KIND.value
