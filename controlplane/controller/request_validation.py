"""Validates requests that brokers forward for clients against the image, before a row is written.

Pure. Each item of a request gets one result with Kafka's error code and a message. Does not contain: rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never
from uuid import UUID, uuid5

from brokerd.cluster.configs import TOPIC_CONFIGS, contradiction, topic_config_problem, transition_problem
from brokerd.cluster.features import UPGRADE
from brokerd.cluster.features import problem as feature_problem
from brokerd.cluster.image import Image
from brokerd.cluster.levels import FEATURE, LEVEL_MAX, MAJORITY_LEVEL, level_problem
from brokerd.cluster.majority_config import MAJORITY_ACKS, has_majority_acks, replication_problem
from brokerd.cluster.model import BrokerState, TopicState, topic_name_problem, topic_names_collide
from brokerd.cluster.placement import PlacementError, place
from brokerd.cluster.requests import (
    AccessUpdate,
    AlterConfigOp,
    BrokerConfigOps,
    FeatureUpdate,
    ForwardedRequest,
    ItemResult,
    NewPartitions,
    NewReassignment,
    NewTopic,
    OpType,
    RowsPayload,
    TopicConfigOps,
    TopicToDelete,
    Unreadable,
    UpdateFeatures,
)
from brokerd.cluster.znodes import Registration
from brokerd.wire.errors import ErrorCode
from controlplane.domain.limits import TOPIC_PARTITIONS_MAX

RowsItem = NewTopic | TopicToDelete | NewPartitions | TopicConfigOps | BrokerConfigOps | AccessUpdate | NewReassignment
NamedItem = RowsItem | FeatureUpdate

ACCESS_NEEDS_LEVEL = (
    "ACLs, credentials, quotas and broker configs need metadata level 3: "
    "upgrade every broker, then run manage.py upgrade_metadata"
)
ACCESS_KEY_MAX = 1_000
"""Maximum length of an entry's key. The key of an ACL contains all its fields."""
ACCESS_MAX = 100_000
"""Maximum number of entries of each kind, deleted ones included. Every broker keeps them in memory."""
MESSAGE_CHARACTERS_MAX = 500
"""Maximum length of a message. It may quote the input of a client, and the response to a whole request must fit into one entry of the metadata log."""

_NAMESPACE = UUID("6f1c7f1e-9d53-4a51-8a0e-2c3d5f5d7a10")


def verdicts(payload: RowsPayload, image: Image, live: list[BrokerState]) -> list[ItemResult]:
    """One result per item. An item with the error NONE may be written."""
    items: Sequence[RowsItem] = payload.items
    seen: set[str] = set()
    out = []
    for item in items:
        result = _verdict(item, image, live)
        if item.name in seen:
            result = _invalid(item, ErrorCode.INVALID_REQUEST, "the request contains this name twice")
        seen.add(item.name or "")
        out.append(result)
    return out


def _verdict(item: RowsItem, image: Image, live: list[BrokerState]) -> ItemResult:
    match item:
        case NewTopic():
            return _create(item, image, live)
        case TopicToDelete():
            return _delete(item, image)
        case NewPartitions():
            return _grow(item, image, live)
        case TopicConfigOps():
            return _alter(item, image)
        case AccessUpdate():
            return _access(item, image)
        case BrokerConfigOps():
            return _broker_configs(item, image)
        case NewReassignment():
            return _reassignment(item, image, live)
        case _:
            assert_never(item)


def principal_of(request: ForwardedRequest) -> str:
    """The actor in a request's change rows: principal and broker. An older broker sends no principal."""
    actor = "" if isinstance(request.payload, Unreadable) else request.payload.principal
    actor = actor or "client"
    return (actor if request.broker_id < 0 else f"{actor} at broker {request.broker_id}")[:150]


def incompatible_brokers(registrations: Iterable[Registration], level: int) -> list[Registration]:
    """Brokers that cannot read a metadata log of this level. (Level 0: no log exists yet.)"""
    return [r for r in registrations if level and level_problem(level, r.metadata_levels) is not None]


def requested_level(
    requested: int | None, image: Image, registrations: Iterable[Registration]
) -> tuple[int, str | None]:
    """The requested metadata level (None: the highest), and the reason why it is rejected, or None."""
    level = LEVEL_MAX if requested is None else requested
    if level < image.metadata_version:
        return (
            level,
            f"the metadata level is {image.metadata_version} and cannot be lowered; restore a backup instead",
        )
    if level > LEVEL_MAX:
        return level, f"the active controller supports metadata levels up to {LEVEL_MAX}; upgrade it first"
    old = sorted(r.broker_id for r in incompatible_brokers(registrations, level))
    if old:
        return level, f"brokers {old} do not support metadata level {level}; upgrade them first"
    return level, None


def feature_results(
    payload: UpdateFeatures, image: Image, registrations: Iterable[Registration], level: int
) -> list[ItemResult]:
    """One result per requested feature. `level`: the metadata level. If one feature is rejected, none is changed."""
    requested = {item.name: item for item in payload.items}
    if FEATURE in requested and requested[FEATURE].upgrade_type == UPGRADE:
        level = max(level, requested[FEATURE].level)
    results = []
    for name, item in requested.items():
        if name == FEATURE:
            problem = requested_level(item.level, image, registrations)[1]
        else:
            problem = feature_problem(name, item.level, item.upgrade_type, image.features.get(name, 0), level)
        results.append(_invalid(item, ErrorCode.INVALID_UPDATE_VERSION, problem) if problem else _valid(item))
    if any(r.error for r in results):
        text = "another feature of the request was rejected; none was changed"
        pairs = zip(requested.values(), results, strict=True)
        results = [r if r.error else _invalid(item, ErrorCode.FEATURE_UPDATE_FAILED, text) for item, r in pairs]
    return results


def _valid(item: NamedItem, name: str | None = None) -> ItemResult:
    return ItemResult(name or item.name)


def _invalid(item: NamedItem, error: ErrorCode, message: str) -> ItemResult:
    if len(message) > MESSAGE_CHARACTERS_MAX:
        message = message[:MESSAGE_CHARACTERS_MAX] + " ..."
    return ItemResult(item.name, error, message)


def _create(topic: NewTopic, image: Image, live: list[BrokerState]) -> ItemResult:
    name = topic.name
    problem = topic_name_problem(name)
    if problem:
        return _invalid(topic, ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if image.topic_named(name) is not None:
        return _invalid(topic, ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    twin = next((t for t in image.topic_ids if topic_names_collide(t, name)), None)
    if twin is not None:
        return _invalid(
            topic,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic '{twin}' ('.' and '_' count as one).",
        )
    for config, value in topic.configs.items():
        problem = topic_config_problem(config, value)
        if problem:
            return _invalid(topic, ErrorCode.INVALID_CONFIG, problem)
    problem = contradiction({k: v for k, v in topic.configs.items() if v is not None})
    if problem:
        return _invalid(topic, ErrorCode.INVALID_CONFIG, problem)
    assignment = topic.assignment
    factor = len(next(iter(assignment.values()), ())) if assignment else topic.replication_factor
    if (few := _majority_problem(topic, factor, image)) is not None:
        return few
    if assignment:
        if len(assignment) != topic.partitions:
            return _invalid(
                topic, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a manual assignment must list each partition once"
            )
        return _assignment(topic, assignment, live)
    if not 1 <= topic.partitions <= TOPIC_PARTITIONS_MAX:
        return _invalid(
            topic,
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions must be 1 to {TOPIC_PARTITIONS_MAX}, not {topic.partitions}.",
        )
    if topic.replication_factor < 1:
        return _invalid(topic, ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    try:
        place(uuid5(_NAMESPACE, name), 0, 1, topic.replication_factor, live, {})
    except PlacementError as e:
        return _invalid(topic, ErrorCode.INVALID_REPLICATION_FACTOR, f"Unable to replicate: {e}.")
    return _valid(topic)


def _majority_problem(topic: NewTopic, factor: int, image: Image) -> ItemResult | None:
    configs = {k: v for k, v in topic.configs.items() if v is not None}
    if (problem := replication_problem(configs, factor)) is not None:
        return _invalid(topic, ErrorCode.INVALID_REPLICATION_FACTOR, problem)
    if has_majority_acks(configs) and image.metadata_version < MAJORITY_LEVEL:
        needed = f"{MAJORITY_ACKS}=true needs metadata level {MAJORITY_LEVEL}: upgrade every broker, then run manage.py upgrade_metadata"
        return _invalid(topic, ErrorCode.UNSUPPORTED_VERSION, needed)
    return None


def _assignment(
    topic: NewTopic | NewPartitions, assignment: Mapping[int, Sequence[int]], live: list[BrokerState]
) -> ItemResult:
    ids = {b.broker_id for b in live}
    if len(assignment) > TOPIC_PARTITIONS_MAX:
        return _invalid(
            topic,
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions must be 1 to {TOPIC_PARTITIONS_MAX}, not {len(assignment)}.",
        )
    if sorted(assignment) != list(range(len(assignment))):
        return _invalid(
            topic, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions of a manual assignment must be 0, 1, 2, ..."
        )
    sizes = {len(r) for r in assignment.values()}
    if len(sizes) != 1 or 0 in sizes:
        return _invalid(
            topic,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "every partition needs the same number of replicas, at least one",
        )
    for replicas in assignment.values():
        if len(set(replicas)) != len(replicas) or not set(replicas) <= ids:
            return _invalid(
                topic,
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"replicas {list(replicas)} contain a duplicate or a broker that is not alive (alive: {sorted(ids)})",
            )
    return _valid(topic)


def _find_topic(topic: TopicToDelete | NewPartitions | TopicConfigOps, image: Image) -> TopicState | ItemResult:
    if isinstance(topic, TopicToDelete) and topic.id is not None:
        by_id = image.topics.get(topic.id)
        return (
            by_id
            if by_id is not None
            else _invalid(topic, ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id")
        )
    state = image.topic_named(topic.name or "")
    if state is not None:
        return state
    return _invalid(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic.name!r}")


def _delete(topic: TopicToDelete, image: Image) -> ItemResult:
    state = _find_topic(topic, image)
    if isinstance(state, ItemResult):
        return state
    if state.internal:
        return _invalid(
            topic, ErrorCode.INVALID_TOPIC_EXCEPTION, f"{state.name} is an internal topic and cannot be deleted"
        )
    return _valid(topic, state.name)


def _grow(topic: NewPartitions, image: Image, live: list[BrokerState]) -> ItemResult:
    state = _find_topic(topic, image)
    if isinstance(state, ItemResult):
        return state
    if state.internal:
        return _invalid(
            topic,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"the partition count of {state.name} is fixed: groups are found by it",
        )
    requested = topic.partitions
    if requested <= state.partition_count or requested > TOPIC_PARTITIONS_MAX:
        return _invalid(
            topic,
            ErrorCode.INVALID_PARTITIONS,
            f"Topic '{state.name}' has {state.partition_count} partitions; "
            f"the new number must be larger and at most {TOPIC_PARTITIONS_MAX}, not {requested}.",
        )
    given = topic.assignment
    if given is not None:
        if len(given) != requested - state.partition_count:
            return _invalid(
                topic, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "one list of replicas is needed per new partition"
            )
        return _assignment(topic, dict(enumerate(given)), live)
    return _valid(topic)


def apply_config_operations(
    configs: Mapping[str, str], operations: Iterable[AlterConfigOp]
) -> tuple[dict[str, str], str | None]:
    """The overrides after the incremental operations, and the reason why they are invalid, or None."""
    out = dict(configs)
    for op in operations:
        name, value, kind = op.name, op.value, op.op
        if kind is OpType.DELETE:
            # Also an unknown name, as in Kafka: MirrorMaker 2 deletes each config that has its default in the source, which may be another version.
            out.pop(name, None)
            continue
        definition = TOPIC_CONFIGS.get(name)
        if definition is None:
            return out, f"Unknown topic config name: {name}"
        if kind in (OpType.APPEND, OpType.SUBTRACT):
            if definition.kafka_type != 7:
                return out, f"{name} is not a list config; append and subtract do not apply"
            items = [v for v in out.get(name, definition.default_text).split(",") if v]
            given = [v for v in (value or "").split(",") if v]
            items = (
                [*items, *(v for v in given if v not in items)]
                if kind is OpType.APPEND
                else [v for v in items if v not in given]
            )
            value = ",".join(items)
        elif kind is not OpType.SET:
            return out, f"unknown operation on {name}: expected set, delete, append or subtract"
        problem = topic_config_problem(name, value)
        if problem:
            return out, problem
        out[name] = str(value)
    return out, contradiction(out) or transition_problem(configs, out)


def _alter(topic: TopicConfigOps, image: Image) -> ItemResult:
    state = _find_topic(topic, image)
    if isinstance(state, ItemResult):
        return state
    _, problem = apply_config_operations(state.configs, topic.configs)
    return _invalid(topic, ErrorCode.INVALID_CONFIG, problem) if problem else _valid(topic)


def _access(item: AccessUpdate, image: Image) -> ItemResult:
    """Check only the common fields. The broker has validated the content."""
    if len(item.name) > ACCESS_KEY_MAX:
        return _invalid(item, ErrorCode.INVALID_REQUEST, f"the key has more than {ACCESS_KEY_MAX} characters")
    entries = image.access.get(item.kind, {})
    if item.value is not None and item.name not in entries and len(entries) >= ACCESS_MAX:
        return _invalid(item, ErrorCode.POLICY_VIOLATION, f"there are {ACCESS_MAX} entries of kind {item.kind} already")
    return _valid(item)


def _reassignment(item: NewReassignment, image: Image, live: list[BrokerState]) -> ItemResult:
    """One partition; `replicas` None cancels its reassignment."""
    topic = image.topic_named(item.topic)
    state = topic.partitions.get(item.partition) if topic is not None else None
    if state is None:
        return _invalid(item, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {item.name}")
    replicas = item.replicas
    if replicas is None:
        return (
            _valid(item)
            if state.reassigning
            else _invalid(item, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no reassignment is in progress")
        )
    if not replicas or len(set(replicas)) != len(replicas):
        return _invalid(
            item, ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"replicas {list(replicas)} are empty or contain a duplicate"
        )
    alive = {b.broker_id for b in live}
    if strange := [b for b in replicas if b not in alive and b not in state.replicas]:
        return _invalid(
            item, ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"brokers {strange} are not alive (alive: {sorted(alive)})"
        )
    return _valid(item)


def _broker_configs(item: BrokerConfigOps, image: Image) -> ItemResult:
    """`name` is a broker id, "" for all brokers. The broker has validated the values: only it has the table of broker configs."""
    name = item.name
    if name and not (name.isascii() and name.isdecimal() and int(name) in image.brokers):
        return _invalid(
            item,
            ErrorCode.INVALID_REQUEST,
            f"there is no broker {name!r}; give a broker id, or nothing for all brokers",
        )
    if any(op.op not in (OpType.SET, OpType.DELETE) for op in item.configs):
        return _invalid(item, ErrorCode.INVALID_REQUEST, "broker configs support only the operations set and delete")
    return _valid(item)
