"""A cluster document: topics, ACLs, quotas, routes, users, broker configs and role bindings as one declarative object. The parser reports all faults together.

Invariants: a document contains no secret. Of a user it contains the name and the mechanisms; a password in it is a fault. `parse` either returns a document
whose resources are well-formed and named once each, or every fault with its path. A config or limit that a document does not name does not change; null removes
it.
Does not contain: the current state (`document_plan`), text (`weir_common.document_text`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from brokerd.cluster.configs import topic_config_problem
from brokerd.cluster.model import INTERNAL_TOPICS, topic_name_problem
from brokerd.cluster.quota_entities import entity_key, entity_problem, value_problem
from brokerd.cluster.routes import InvalidRoute, RouteStart, route_of
from controlplane.domain import scram_users
from controlplane.domain.access import ACL_FIELDS, AclOperation, AclPattern, AclPermission, AclResource, acl_key
from controlplane.domain.errors import Rejected
from controlplane.domain.limits import TOPIC_PARTITIONS_MAX
from controlplane.domain.roles import check_grant
from weir_common.phrases import sentence

VERSION = 1
OWNER_LENGTH_MAX = 100
"""Maximum number of characters of an owner, which is a column of the table of managed resources."""
RESOURCES_MAX = 10_000
"""Maximum number of resources of one document. All of them are compared in one request."""
TOO_MANY = "At most {most} resources; divide the document."
REPLICAS_MAX = 100
"""Maximum number of replicas of a partition in a document."""


class ResourceKind(StrEnum):
    """Kinds of resources in the order in which they are created. They are deleted in the opposite order."""

    TOPIC = "topic"
    ACL = "acl"
    QUOTA = "quota"
    ROUTE = "route"
    USER = "user"
    BROKER_CONFIG = "broker_config"
    ROLE_BINDING = "role_binding"


SECTIONS = {
    "topics": ResourceKind.TOPIC,
    "acls": ResourceKind.ACL,
    "quotas": ResourceKind.QUOTA,
    "routes": ResourceKind.ROUTE,
    "users": ResourceKind.USER,
    "broker_configs": ResourceKind.BROKER_CONFIG,
    "role_bindings": ResourceKind.ROLE_BINDING,
}
"""{list of a document: the kind of its resources}"""
FIELDS = ("version", "owner", *SECTIONS)


class DocumentFault(StrEnum):
    UNKNOWN_FIELD = "unknown_field"
    REQUIRED = "required"
    INVALID = "invalid"
    REPEATED = "repeated"
    REJECTED = "refused"
    """The resource is well-formed, and its state in the cluster prevents the change."""


@dataclass(frozen=True, slots=True)
class DocumentProblem:
    """`path`: for example `topics.3.configs.retention.ms`."""

    path: str
    fault: DocumentFault
    detail: str


class InvalidDocument(ValueError):
    """All faults of a document; at least one."""

    def __init__(self, problems: Iterable[DocumentProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{p.path}: {p.detail}" for p in self.problems[:5]))


ResourceId = tuple[ResourceKind, str]
"""(kind, key). The key is the name of a topic, route or user, the fields of an ACL or role binding, the entity of a quota, the ID of a broker or
ALL_BROKERS."""


@dataclass(frozen=True, slots=True)
class DocumentResource:
    """`desired`: the values of the document. `path`: where the document has it."""

    kind: ResourceKind
    key: str
    desired: Mapping[str, Any]
    path: str

    @property
    def id(self) -> ResourceId:
        return self.kind, self.key


@dataclass(frozen=True, slots=True)
class ClusterDocument:
    """`owner` is the owner of the resources. If it is empty, the document manages no resources, and `prune` deletes nothing."""

    owner: str
    resources: tuple[DocumentResource, ...]


_ACL_WORDS: dict[str, type[StrEnum]] = {
    "resource_type": AclResource,
    "pattern_type": AclPattern,
    "operation": AclOperation,
    "permission": AclPermission,
}
_ACL_DEFAULTS = {"pattern_type": AclPattern.LITERAL.value, "host": "*"}
TOPIC_FIELDS = ("name", "partitions", "replication_factor", "configs")
USER_FIELDS = ("name", "mechanisms")
BROKER_FIELDS = ("broker", "configs")
ALL_BROKERS = "all"
"""The broker id of cluster-wide configs, which apply to every broker without its own value."""
BINDING_FIELDS = ("user", "group", "role", "resource_type", "pattern_type", "resource_name")
SECRETS = ("password", "salt", "salted_password", "stored_key", "server_key", "iterations")
"""Names of credential fields that a document must not contain."""
ROUTE_FIELDS = ("name", "source", "start", "enabled", "owner", "description", "principal", "bindings")


SAME_RESOURCE = {
    ResourceKind.TOPIC: "{path} is the same topic.",
    ResourceKind.ACL: "{path} is the same acl.",
    ResourceKind.QUOTA: "{path} is the same quota.",
    ResourceKind.ROUTE: "{path} is the same route.",
    ResourceKind.USER: "{path} is the same user.",
    ResourceKind.BROKER_CONFIG: "{path} is the same broker_config.",
    ResourceKind.ROLE_BINDING: "{path} is the same role_binding.",
}


def _did_you_mean(name: str) -> str:
    return sentence("Did you mean {name}?", name=name)


class _Faults:
    """Collects the faults of one document."""

    def __init__(self) -> None:
        self.found: list[DocumentProblem] = []

    def add(self, path: str, fault: DocumentFault, detail: str) -> None:
        self.found.append(DocumentProblem(path, fault, detail))

    def invalid(self, path: str, detail: str) -> None:
        self.add(path, DocumentFault.INVALID, detail)

    def unknown(self, path: str, value: Mapping[str, object], allowed: tuple[str, ...]) -> None:
        for name in value:
            if name in allowed:
                continue
            near = get_close_matches(str(name), allowed, n=1)
            hint = _did_you_mean(near[0]) if near else sentence("Known are: {names}.", names=allowed)
            self.add(
                f"{path}.{name}" if path else str(name),
                DocumentFault.UNKNOWN_FIELD,
                sentence("There is no such field. {hint}", hint=hint),
            )

    def text(self, path: str, value: Mapping[str, object], name: str) -> str | None:
        """A required text; None with a fault."""
        given = value.get(name)
        if given is None or given == "":
            self.add(f"{path}.{name}", DocumentFault.REQUIRED, sentence("This field is required."))
            return None
        if not isinstance(given, str):
            self.invalid(
                f"{path}.{name}",
                sentence("A text is needed, not {given}; in YAML put it in quotation marks.", given=repr(given)),
            )
            return None
        return given

    def number(self, path: str, value: Mapping[str, object], name: str, most: int) -> int | None:
        given = value.get(name)
        if given is None:
            return None
        if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= most:
            self.invalid(
                f"{path}.{name}",
                sentence("A whole number from 1 to {most} is needed, not {given}.", most=most, given=repr(given)),
            )
            return None
        return given


def config_text(value: object) -> str:
    """A config value in Kafka's text form, because YAML reads 1000 as a number and true as a boolean."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse(value: object) -> ClusterDocument:
    """The document in this JSON value. Raises InvalidDocument with every fault."""
    faults = _Faults()
    if not isinstance(value, Mapping):
        raise InvalidDocument([DocumentProblem("", DocumentFault.INVALID, sentence("A document is an object."))])
    faults.unknown("", value, FIELDS)
    if value.get("version", VERSION) != VERSION:
        faults.invalid("version", sentence("This server reads version {version}.", version=VERSION))
    owner = value.get("owner", "")
    if not isinstance(owner, str) or len(owner) > OWNER_LENGTH_MAX:
        faults.invalid("owner", sentence("A text of at most {most} characters is needed.", most=OWNER_LENGTH_MAX))
        owner = ""
    resources: list[DocumentResource] = []
    for section, kind in SECTIONS.items():
        given = value.get(section)
        if given is None:
            continue
        if not isinstance(given, list):
            faults.invalid(section, sentence("A list is needed."))
            continue
        if len(given) > RESOURCES_MAX:
            faults.invalid(section, sentence(TOO_MANY, most=RESOURCES_MAX))
            continue
        for i, item in enumerate(given):
            path = f"{section}.{i}"
            if not isinstance(item, Mapping):
                faults.invalid(path, sentence("An object is needed."))
            elif (resource := _READERS[kind](item, path, faults)) is not None:
                resources.append(resource)
    if len(resources) > RESOURCES_MAX:
        faults.invalid("", sentence(TOO_MANY, most=RESOURCES_MAX))
    _check_repeated(resources, faults)
    if faults.found:
        raise InvalidDocument(faults.found)
    return ClusterDocument(owner, tuple(resources))


def _check_repeated(resources: list[DocumentResource], faults: _Faults) -> None:
    first: dict[ResourceId, str] = {}
    for resource in resources:
        if (earlier := first.setdefault(resource.id, resource.path)) != resource.path:
            detail = sentence(SAME_RESOURCE[resource.kind], path=earlier)
            faults.add(resource.path, DocumentFault.REPEATED, detail)


def _topic(value: Mapping[str, Any], path: str, faults: _Faults) -> DocumentResource | None:
    faults.unknown(path, value, TOPIC_FIELDS)
    name = faults.text(path, value, "name")
    if name is not None and (problem := topic_name_problem(name)) is not None:
        faults.invalid(f"{path}.name", problem)
    if name in INTERNAL_TOPICS:
        faults.invalid(
            f"{path}.name", sentence("{topic} is internal; documents have topics of clients only.", topic=name)
        )
    desired: dict[str, Any] = {
        "partitions": faults.number(path, value, "partitions", TOPIC_PARTITIONS_MAX),
        "replication_factor": faults.number(path, value, "replication_factor", REPLICAS_MAX),
    }
    desired["configs"] = _configs(value, path, faults)
    for config, text in desired["configs"].items():
        if text is not None and (problem := topic_config_problem(config, text)) is not None:
            faults.invalid(f"{path}.configs.{config}", problem)
    return None if name is None else DocumentResource(ResourceKind.TOPIC, name, desired, path)


def _configs(value: Mapping[str, object], path: str, faults: _Faults) -> dict[str, str | None]:
    """The configs of a topic or broker by name. None removes the config."""
    configs = value.get("configs") or {}
    if not isinstance(configs, Mapping):
        faults.invalid(f"{path}.configs", sentence("An object of names and values is needed."))
        return {}
    return {str(k): None if v is None else config_text(v) for k, v in configs.items()}


def _acl(value: Mapping[str, object], path: str, faults: _Faults) -> DocumentResource | None:
    faults.unknown(path, value, ACL_FIELDS)
    fields: dict[str, str] = {}
    for name in ACL_FIELDS:
        if name in _ACL_DEFAULTS and name not in value:
            fields[name] = _ACL_DEFAULTS[name]
        elif (text := faults.text(path, value, name)) is not None:
            fields[name] = text
    for name, words in _ACL_WORDS.items():
        if name in fields and fields[name] not in set(words):
            near = get_close_matches(fields[name], list(words), n=1)
            faults.invalid(
                f"{path}.{name}",
                _did_you_mean(near[0]) if near else sentence("Use one of {words}.", words=[w.value for w in words]),
            )
    kind, colon, rest = fields.get("principal", "User:x").partition(":")
    if not (kind and colon and rest):
        faults.invalid(f"{path}.principal", sentence("A principal has a type; use the format User:alice."))
    return DocumentResource(ResourceKind.ACL, acl_key(fields), fields, path) if len(fields) == len(ACL_FIELDS) else None


def _quota(value: Mapping[str, object], path: str, faults: _Faults) -> DocumentResource | None:
    faults.unknown(path, value, ("entity", "limits"))
    entity, limits = value.get("entity"), value.get("limits")
    if not isinstance(entity, Mapping) or not all(isinstance(n, str | None) for n in entity.values()):
        faults.invalid(
            f"{path}.entity",
            sentence(
                "An object is needed, for example {example}; null is the default entity.", example='{"user": "alice"}'
            ),
        )
        return None
    if (problem := entity_problem(entity)) is not None:
        faults.invalid(f"{path}.entity", sentence("Invalid quota entity: {problem}.", problem=problem))
        return None
    if not isinstance(limits, Mapping) or not limits:
        faults.add(f"{path}.limits", DocumentFault.REQUIRED, sentence("Give at least one limit."))
        return None
    for quota, limit in limits.items():
        if limit is not None and (not isinstance(limit, int | float) or isinstance(limit, bool)):
            faults.invalid(f"{path}.limits.{quota}", sentence("A number is needed, not {given}.", given=repr(limit)))
        elif (problem := value_problem(entity, str(quota), limit)) is not None:
            faults.invalid(f"{path}.limits.{quota}", f"{problem}.")
    desired = {"entity": dict(entity), "limits": dict(limits)}
    return DocumentResource(ResourceKind.QUOTA, entity_key(entity), desired, path)


def _route(value: Mapping[str, object], path: str, faults: _Faults) -> DocumentResource | None:
    faults.unknown(path, value, ROUTE_FIELDS)
    name, source = faults.text(path, value, "name"), faults.text(path, value, "source")
    if name is None or source is None:
        return None
    desired = {
        "source": source,
        "start": value.get("start", RouteStart.LATEST.value),
        "enabled": value.get("enabled", True),
        "owner": value.get("owner", ""),
        "description": value.get("description", ""),
        "bindings": value.get("bindings"),
    }
    if not isinstance(desired["enabled"], bool):
        faults.invalid(f"{path}.enabled", sentence("true or false is needed."))
    if "principal" in value:  # a document without the field does not change it
        desired["principal"] = value["principal"] or ""
    for field in ("owner", "description", "principal"):
        if not isinstance(desired.get(field, ""), str):
            faults.invalid(f"{path}.{field}", sentence("A text is needed."))
    try:
        route_of(name, 0, desired)
    except InvalidRoute as e:
        faults.invalid(f"{path}.{e.field}", e.reason)
    return DocumentResource(ResourceKind.ROUTE, name, desired, path)


def _user(value: Mapping[str, object], path: str, faults: _Faults) -> DocumentResource | None:
    for secret in SECRETS:
        if secret in value:
            faults.invalid(
                f"{path}.{secret}",
                sentence(
                    "A document has no secrets: of a user it has the name and the mechanisms only. Remove this field, and create the user or change its "
                    "password with `weir users create`, `weir users update` or in the console."
                ),
            )
    faults.unknown(path, {n: v for n, v in value.items() if n not in SECRETS}, USER_FIELDS)
    name = faults.text(path, value, "name")
    if name is not None and (problem := scram_users.name_problem(name)) is not None:
        faults.invalid(f"{path}.name", problem)
    mechanisms = value.get("mechanisms")
    if mechanisms is not None and (
        not isinstance(mechanisms, list)
        or not all(isinstance(m, str) for m in mechanisms)
        or scram_users.mechanisms_problem(mechanisms) is not None
    ):
        faults.invalid(
            f"{path}.mechanisms", sentence("A list of mechanisms is needed: {names}.", names=scram_users.MECHANISMS)
        )
        return None
    desired = {"mechanisms": None if mechanisms is None else sorted(set(mechanisms))}
    return None if name is None else DocumentResource(ResourceKind.USER, name, desired, path)


def _broker_config(value: Mapping[str, object], path: str, faults: _Faults) -> DocumentResource | None:
    faults.unknown(path, value, BROKER_FIELDS)
    broker = value.get("broker")
    if broker is None:
        detail = sentence("This field is required: the ID of a broker, or {all}.", all=ALL_BROKERS)
        faults.add(f"{path}.broker", DocumentFault.REQUIRED, detail)
        return None
    if broker != ALL_BROKERS and (not isinstance(broker, int) or isinstance(broker, bool) or broker < 0):
        faults.invalid(
            f"{path}.broker",
            sentence("The ID of a broker or {all} is needed, not {given}.", all=ALL_BROKERS, given=repr(broker)),
        )
        return None
    return DocumentResource(ResourceKind.BROKER_CONFIG, str(broker), {"configs": _configs(value, path, faults)}, path)


def _role_binding(value: Mapping[str, Any], path: str, faults: _Faults) -> DocumentResource | None:
    faults.unknown(path, value, BINDING_FIELDS)
    fields = {"user": "", "group": "", "pattern_type": AclPattern.LITERAL.value}
    fields |= {f: value[f] for f in BINDING_FIELDS if f in value}
    texts = {f: faults.text(path, fields, f) for f in BINDING_FIELDS if f not in ("user", "group")}
    for holder in ("user", "group"):
        if not isinstance(fields[holder], str):
            faults.invalid(f"{path}.{holder}", sentence("A text is needed."))
            return None
    if bool(fields["user"]) == bool(fields["group"]):
        faults.add(f"{path}.user", DocumentFault.REQUIRED, sentence("Name a user or a group of users, and not both."))
    if None in texts.values():
        return None
    try:
        check_grant(*(texts[f] or "" for f in ("role", "resource_type", "pattern_type", "resource_name")))
    except Rejected as e:
        faults.invalid(f"{path}.{e.field}", e.reason)
    return DocumentResource(ResourceKind.ROLE_BINDING, binding_key(fields), fields, path)


def binding_key(fields: Mapping[str, str]) -> str:
    """The key of a role binding: its fields as a JSON list, because a name may have any character."""
    return json.dumps([fields[f] for f in BINDING_FIELDS], ensure_ascii=False)


_READERS: dict[ResourceKind, Callable[[Mapping[str, object], str, _Faults], DocumentResource | None]] = {
    ResourceKind.TOPIC: _topic,
    ResourceKind.ACL: _acl,
    ResourceKind.QUOTA: _quota,
    ResourceKind.ROUTE: _route,
    ResourceKind.USER: _user,
    ResourceKind.BROKER_CONFIG: _broker_config,
    ResourceKind.ROLE_BINDING: _role_binding,
}
