"""What brokers forward for their clients: checked here, against the image, before a row is written.

Law: pure; each topic of a request gets one verdict with Kafka's code and a sentence. Called by `core`. Must not come in: rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID, uuid5

from brokerd.cluster.configs import TOPIC_CONFIGS, contradiction, topic_config_problem
from brokerd.cluster.features import UPGRADE
from brokerd.cluster.features import problem as feature_problem
from brokerd.cluster.image import Image
from brokerd.cluster.levels import FEATURE, LEVEL_MAX, level_problem
from brokerd.cluster.metadata import GROUP
from brokerd.cluster.model import BrokerState, TopicState, topic_name_problem, topic_names_collide
from brokerd.cluster.placement import PlacementError, place
from brokerd.cluster.znodes import ForwardedRequest, Registration

Result = dict[str, Any]

UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS = 3, 17, 36, 37
INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST = 38, 39, 40, 42
UNKNOWN_TOPIC_ID, POLICY_VIOLATION, NO_REASSIGNMENT_IN_PROGRESS = 100, 44, 85
INVALID_UPDATE_VERSION, FEATURE_UPDATE_FAILED = 95, 96
PARTITIONS_MAX = 10_000
"""Partitions of one topic: more in one request is a slip of the finger rather than a wish."""
ACCESS_NEEDS_LEVEL = "ACLs, credentials, quotas and brokers' settings need level 3 of the metadata log: run manage.py upgrade_metadata once every broker is of this program"
ACCESS_KINDS = ("acl", "scram", "quota", GROUP)
ACCESS_KEY_MAX = 1_000
"""Characters of an entry's key: an ACL is its own key."""
ACCESS_MAX = 100_000
"""Entries of each kind, deleted ones included: every broker holds them in memory."""
MESSAGE_CHARACTERS_MAX = 500
"""A refusal may quote what a client sent; the answer to all of a request has to fit an entry of the metadata log."""

_NAMESPACE = UUID("6f1c7f1e-9d53-4a51-8a0e-2c3d5f5d7a10")


def verdicts(kind: str, payload: Mapping[str, Any], image: Image, live: list[BrokerState]) -> list[Result]:
    """One result per topic asked for; error 0 means that it may be written."""
    check = _CHECKS[kind]
    seen: set[str] = set()
    out = []
    for topic in payload["topics"]:
        result = check(topic, image, live)
        if topic.get("name") in seen:
            result = _no(topic, INVALID_REQUEST, "the request names this topic twice")
        seen.add(topic.get("name") or "")
        out.append(result)
    return out


def known(kind: str) -> bool:
    return kind in _CHECKS


def asker(request: ForwardedRequest) -> str:
    """Who stands in the change rows of a request. A broker of before says no principal."""
    who = str(request.payload.get("principal") or "client")
    return (who if request.broker_id < 0 else f"{who} at broker {request.broker_id}")[:150]


def deaf(registrations: Iterable[Registration], level: int) -> list[Registration]:
    """Who could not follow a log of this level. (Level 0: no log yet, and nothing that anybody could misread.)"""
    return [r for r in registrations if level and level_problem(level, r.metadata_levels) is not None]


def wanted_level(
    payload: Mapping[str, Any], image: Image, registrations: Iterable[Registration]
) -> tuple[int, str | None]:
    """The level that the metadata log is to be raised to (none given: the highest), and why it cannot be."""
    given = payload.get("level")
    level = LEVEL_MAX if given is None else int(given)
    if level < image.metadata_version:
        return (
            level,
            f"the metadata log is at level {image.metadata_version} and is never lowered; restore a backup instead",
        )
    if level > LEVEL_MAX:
        return level, f"the acting controller writes up to level {LEVEL_MAX}; upgrade it first"
    old = sorted(r.broker_id for r in deaf(registrations, level))
    if old:
        return level, f"brokers {old} do not read level {level} of the metadata log; upgrade them first"
    return level, None


def feature_results(
    payload: Mapping[str, Any], image: Image, registrations: Iterable[Registration], level: int
) -> list[Result]:
    """One result per feature asked for. `level`: of the log. If one cannot be, none is."""
    wanted = {item["name"]: item for item in payload["topics"]}
    if FEATURE in wanted and wanted[FEATURE]["upgrade_type"] == UPGRADE:
        level = max(level, int(wanted[FEATURE]["level"]))
    results = []
    for name, item in wanted.items():
        if name == FEATURE:
            problem = wanted_level({"level": item["level"]}, image, registrations)[1]
        else:
            problem = feature_problem(name, item["level"], item["upgrade_type"], image.features.get(name, 0), level)
        results.append(_no(item, INVALID_UPDATE_VERSION, problem) if problem else _ok(item))
    if any(r["error"] for r in results):
        told = "another feature of the request was refused; none was changed"
        results = [r if r["error"] else _no(wanted[r["name"]], FEATURE_UPDATE_FAILED, told) for r in results]
    return results


def _ok(topic: Mapping[str, Any], name: str | None = None) -> Result:
    return {"name": name or topic.get("name"), "error": 0, "message": None}


def _no(topic: Mapping[str, Any], error: int, message: str) -> Result:
    if len(message) > MESSAGE_CHARACTERS_MAX:
        message = message[:MESSAGE_CHARACTERS_MAX] + " ..."
    return {"name": topic.get("name"), "error": error, "message": message}


def _create(topic: Mapping[str, Any], image: Image, live: list[BrokerState]) -> Result:
    name = topic["name"]
    problem = topic_name_problem(name)
    if problem:
        return _no(topic, INVALID_TOPIC, problem)
    if image.topic_named(name) is not None:
        return _no(topic, TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    twin = next((t for t in image.topic_ids if topic_names_collide(t, name)), None)
    if twin is not None:
        return _no(
            topic, INVALID_TOPIC, f"Topic '{name}' collides with existing topic '{twin}' ('.' and '_' count as one)."
        )
    for config, value in (topic.get("configs") or {}).items():
        problem = topic_config_problem(config, value)
        if problem:
            return _no(topic, INVALID_CONFIG, problem)
    problem = contradiction(topic.get("configs") or {})
    if problem:
        return _no(topic, INVALID_CONFIG, problem)
    assignment = topic.get("assignment")
    if assignment:
        if len(assignment) != topic["partitions"]:
            return _no(topic, INVALID_REPLICA_ASSIGNMENT, "a manual assignment names each partition once")
        return _assignment(topic, assignment, live)
    if not 1 <= topic["partitions"] <= PARTITIONS_MAX:
        return _no(
            topic, INVALID_PARTITIONS, f"Number of partitions must be 1 to {PARTITIONS_MAX}, not {topic['partitions']}."
        )
    if topic["replication_factor"] < 1:
        return _no(topic, INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    try:
        place(uuid5(_NAMESPACE, name), 0, 1, topic["replication_factor"], live, {})
    except PlacementError as e:
        return _no(topic, INVALID_REPLICATION_FACTOR, f"Unable to replicate: {e}.")
    return _ok(topic)


def _assignment(topic: Mapping[str, Any], assignment: Mapping[str, Any], live: list[BrokerState]) -> Result:
    ids = {b.broker_id for b in live}
    if len(assignment) > PARTITIONS_MAX:
        return _no(
            topic, INVALID_PARTITIONS, f"Number of partitions must be 1 to {PARTITIONS_MAX}, not {len(assignment)}."
        )
    if sorted(int(i) for i in assignment) != list(range(len(assignment))):
        return _no(topic, INVALID_REPLICA_ASSIGNMENT, "partitions of a manual assignment must be 0, 1, 2, ...")
    sizes = {len(r) for r in assignment.values()}
    if len(sizes) != 1 or 0 in sizes:
        return _no(topic, INVALID_REPLICA_ASSIGNMENT, "every partition needs the same number of replicas, at least one")
    for replicas in assignment.values():
        if len(set(replicas)) != len(replicas) or not set(replicas) <= ids:
            return _no(
                topic,
                INVALID_REPLICA_ASSIGNMENT,
                f"replicas {replicas} are doubled or not all alive (alive: {sorted(ids)})",
            )
    return _ok(topic)


def _found(topic: Mapping[str, Any], image: Image) -> TopicState | Result:
    if topic.get("id"):
        by_id = image.topics.get(UUID(topic["id"]))
        return by_id if by_id is not None else _no(topic, UNKNOWN_TOPIC_ID, "there is no topic with this id")
    state = image.topic_named(topic["name"])
    return (
        state if state is not None else _no(topic, UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic['name']!r}")
    )


def _delete(topic: Mapping[str, Any], image: Image, live: list[BrokerState]) -> Result:
    state = _found(topic, image)
    if isinstance(state, dict):
        return state
    if state.internal:
        return _no(topic, INVALID_TOPIC, f"{state.name} is internal: groups would lose their offsets")
    return _ok(topic, state.name)


def _grow(topic: Mapping[str, Any], image: Image, live: list[BrokerState]) -> Result:
    state = _found(topic, image)
    if isinstance(state, dict):
        return state
    if state.internal:
        return _no(topic, INVALID_TOPIC, f"the partition count of {state.name} is fixed: groups are found by it")
    wanted = topic["partitions"]
    if wanted <= state.partition_count or wanted > PARTITIONS_MAX:
        return _no(topic, INVALID_PARTITIONS, f"Topic '{state.name}' has {state.partition_count} partitions; "
                   f"the new number must be larger and at most {PARTITIONS_MAX}, not {wanted}.")  # fmt: skip
    given = topic.get("assignment")
    if given is not None:
        if len(given) != wanted - state.partition_count:
            return _no(topic, INVALID_REPLICA_ASSIGNMENT, "one list of replicas is needed per new partition")
        return _assignment(topic, {str(i): r for i, r in enumerate(given)}, live)
    return _ok(topic)


def altered(configs: Mapping[str, str], operations: list[Mapping[str, Any]]) -> tuple[dict[str, str], str | None]:
    """The overrides after incremental operations, or why they cannot be done."""
    out = dict(configs)
    for op in operations:
        name, value, kind = op["name"], op.get("value"), op["op"]
        definition = TOPIC_CONFIGS.get(name)
        if definition is None:
            return out, f"Unknown topic config name: {name}"
        if kind == "delete":
            out.pop(name, None)
            continue
        if kind in ("append", "subtract"):
            if definition.kafka_type != 7:
                return out, f"{name} is not a list; append and subtract do not apply"
            items = [v for v in out.get(name, definition.default_text).split(",") if v]
            given = [v for v in (value or "").split(",") if v]
            items = (
                [*items, *(v for v in given if v not in items)]
                if kind == "append"
                else [v for v in items if v not in given]
            )
            value = ",".join(items)
        elif kind != "set":
            return out, f"unknown operation on {name}"
        problem = topic_config_problem(name, value)
        if problem:
            return out, problem
        out[name] = str(value)
    return out, contradiction(out)


def _alter(topic: Mapping[str, Any], image: Image, live: list[BrokerState]) -> Result:
    state = _found(topic, image)
    if isinstance(state, dict):
        return state
    _, problem = altered(state.configs, topic["configs"])
    return _no(topic, INVALID_CONFIG, problem) if problem else _ok(topic)


def _access(item: Mapping[str, Any], image: Image, live: list[BrokerState]) -> Result:
    """The broker has checked what it means (it alone knows the protocol's words); here only what carries it."""
    kind, value = item.get("kind"), item.get("value")
    if kind not in ACCESS_KINDS or not isinstance(value, dict | None) or len(item["name"]) > ACCESS_KEY_MAX:
        return _no(item, INVALID_REQUEST, f"access of kind {kind!r} cannot be written so")
    if (
        value is not None
        and item["name"] not in image.access.get(kind, {})
        and len(image.access.get(kind, {})) >= ACCESS_MAX
    ):
        return _no(item, POLICY_VIOLATION, f"there are {ACCESS_MAX} entries of kind {kind} already")
    return _ok(item)


def _reassignment(item: Mapping[str, Any], image: Image, live: list[BrokerState]) -> Result:
    """One partition: `replicas` None cancels what is under way."""
    topic = image.topic_named(item["topic"])
    state = topic.partitions.get(item["partition"]) if topic is not None else None
    if state is None:
        return _no(item, UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {item['name']}")
    replicas = item["replicas"]
    if replicas is None:
        return (
            _ok(item) if state.reassigning else _no(item, NO_REASSIGNMENT_IN_PROGRESS, "no reassignment is under way")
        )
    if not replicas or len(set(replicas)) != len(replicas):
        return _no(item, INVALID_REPLICA_ASSIGNMENT, f"replicas {replicas} are none, or name a broker twice")
    alive = {b.broker_id for b in live}
    if strange := [b for b in replicas if b not in alive and b not in state.replicas]:
        return _no(item, INVALID_REPLICA_ASSIGNMENT, f"brokers {strange} are not alive (alive: {sorted(alive)})")
    return _ok(item)


def _broker_configs(item: Mapping[str, Any], image: Image, live: list[BrokerState]) -> Result:
    """`name` is a broker's id, "" for all. The broker has checked what is set: it alone knows the table of its settings."""
    name = item["name"]
    if name and not (name.isascii() and name.isdecimal() and int(name) in image.brokers):
        return _no(item, INVALID_REQUEST, f"there is no broker {name!r}; give a broker's id, or nothing for all")
    if any(op["op"] not in ("set", "delete") for op in item["configs"]):
        return _no(item, INVALID_REQUEST, "settings of brokers are set or deleted")
    return _ok(item)


_CHECKS: dict[str, Callable[[Mapping[str, Any], Image, list[BrokerState]], Result]] = {
    "create_topics": _create,
    "delete_topics": _delete,
    "create_partitions": _grow,
    "alter_topic_configs": _alter,
    "alter_access": _access,
    "alter_broker_configs": _broker_configs,
    "alter_reassignments": _reassignment,
}
