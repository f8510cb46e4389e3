"""The sections of a cluster document: one reader per kind of resource, from an object of JSON to typed values, and the faults that readers find.

Invariants: a fault has the path, the invalid value and what is expected. No fault has a credential: of a user, a document has the name and the mechanisms only.
Does not contain: the document as a whole (`cluster_document`), the values (`document_values`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from brokerd.cluster.configs import topic_config_problem
from brokerd.cluster.model import INTERNAL_TOPICS, topic_name_problem
from brokerd.cluster.quota_entities import entity_key, entity_problem, value_problem
from brokerd.cluster.routes import InvalidRoute, RouteStart, route_of
from controlplane.domain import scram_users
from controlplane.domain.access import ACL_FIELDS, AclOperation, AclPattern, AclPermission, AclResource, acl_key
from controlplane.domain.document_values import (
    AclValues,
    BrokerConfigValues,
    DocumentValues,
    QuotaValues,
    ResourceKind,
    RoleBindingValues,
    RouteValues,
    TopicValues,
    UserValues,
)
from controlplane.domain.errors import Rejected
from controlplane.domain.limits import TOPIC_PARTITIONS_MAX
from controlplane.domain.roles import check_grant
from weir_common.phrases import sentence

SHOWN_MAX = 60
"""Maximum number of characters of a value in a message."""
REPLICAS_MAX = 100
"""Maximum number of replicas of a partition in a document."""
JSON_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (str, "string"),
    (list, "array"),
    (Mapping, "object"),
    (int, "number"),
    (float, "number"),
)
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


def _did_you_mean(name: str) -> str:
    return sentence("Did you mean {name}?", name=name)


class DocumentFaults:
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


def json_type(value: object) -> str:
    """The type of a JSON value in a message about lists and objects. Their content is not shown, because it may have a credential."""
    return next((name for kind, name in JSON_TYPES if isinstance(value, kind)), "null")


def value_text(value: object) -> str:
    """A value in a message about this value alone."""
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def config_text(value: object) -> str:
    """A config value in Kafka's text form, because YAML reads 1000 as a number and true as a boolean."""
    return str(value).lower() if isinstance(value, bool) else str(value)


SectionItem = tuple[str | None, DocumentValues | None]
"""(key, values) of one resource. None: the document does not have it in a valid form, which is a fault."""


def _topic(value: Mapping[str, object], path: str, faults: DocumentFaults) -> SectionItem:
    faults.unknown(path, value, TOPIC_FIELDS)
    name = faults.text(path, value, "name")
    if name is not None and (problem := topic_name_problem(name)) is not None:
        faults.invalid(f"{path}.name", problem)
    if name in INTERNAL_TOPICS:
        faults.invalid(
            f"{path}.name", sentence("{topic} is internal; documents have topics of clients only.", topic=name)
        )
    desired = TopicValues(
        partitions=faults.number(path, value, "partitions", TOPIC_PARTITIONS_MAX),
        replication_factor=faults.number(path, value, "replication_factor", REPLICAS_MAX),
        configs=_configs(value, path, faults),
    )
    for config, text in desired.configs.items():
        if text is not None and (problem := topic_config_problem(config, text)) is not None:
            faults.invalid(f"{path}.configs.{config}", problem)
    return name, desired


def _configs(value: Mapping[str, object], path: str, faults: DocumentFaults) -> dict[str, str | None]:
    """The configs of a topic or broker by name. None removes the config."""
    configs = value.get("configs") or {}
    if not isinstance(configs, Mapping):
        detail = sentence(
            "An object of names and values is needed, not a value of type {given}.", given=json_type(configs)
        )
        faults.invalid(f"{path}.configs", detail)
        return {}
    return {str(k): None if v is None else config_text(v) for k, v in configs.items()}


def _acl(value: Mapping[str, object], path: str, faults: DocumentFaults) -> SectionItem:
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
    return (acl_key(fields), AclValues(**fields)) if len(fields) == len(ACL_FIELDS) else (None, None)


def _quota(value: Mapping[str, object], path: str, faults: DocumentFaults) -> SectionItem:
    faults.unknown(path, value, ("entity", "limits"))
    entity, limits = value.get("entity"), value.get("limits")
    if not isinstance(entity, Mapping) or not all(isinstance(n, str | None) for n in entity.values()):
        faults.invalid(
            f"{path}.entity",
            sentence(
                "An object is needed, for example {example}, not a value of type {given}; null is the default entity.",
                example='{"user": "alice"}',
                given=json_type(entity),
            ),
        )
        return None, None
    if (problem := entity_problem(entity)) is not None:
        faults.invalid(f"{path}.entity", sentence("Invalid quota entity: {problem}.", problem=problem))
        return None, None
    if not isinstance(limits, Mapping) or not limits:
        faults.add(f"{path}.limits", DocumentFault.REQUIRED, sentence("Give at least one limit."))
        return entity_key(entity), None
    for quota, limit in limits.items():
        if limit is not None and (not isinstance(limit, int | float) or isinstance(limit, bool)):
            faults.invalid(f"{path}.limits.{quota}", sentence("A number is needed, not {given}.", given=repr(limit)))
        elif (problem := value_problem(entity, str(quota), limit)) is not None:
            faults.invalid(f"{path}.limits.{quota}", f"{problem}.")
    return entity_key(entity), QuotaValues(dict(entity), dict(limits))


def _route(value: Mapping[str, object], path: str, faults: DocumentFaults) -> SectionItem:
    faults.unknown(path, value, ROUTE_FIELDS)
    name, source = faults.text(path, value, "name"), faults.text(path, value, "source")
    if name is None or source is None:
        return name, None
    enabled = value.get("enabled", True)
    if not isinstance(enabled, bool):
        faults.invalid(f"{path}.enabled", sentence("true or false is needed, not {given}.", given=value_text(enabled)))
    texts = {"owner": value.get("owner", ""), "description": value.get("description", "")}
    if "principal" in value:  # a document without the field does not change it
        texts["principal"] = value["principal"] or ""
    for field, text in texts.items():
        if not isinstance(text, str):
            faults.invalid(f"{path}.{field}", sentence("A text is needed, not {given}.", given=value_text(text)))
            texts[field] = ""
    start = value.get("start", RouteStart.LATEST.value)
    definition = {"source": source, "start": start, "bindings": value.get("bindings"), "enabled": enabled, **texts}
    try:
        route = route_of(name, 0, definition)
    except InvalidRoute as e:
        faults.invalid(f"{path}.{e.field}", e.reason)
        return name, None
    return name, RouteValues(
        source=route.source,
        start=route.start.value,
        enabled=route.enabled,
        owner=str(texts["owner"]),
        description=str(texts["description"]),
        bindings=value.get("bindings"),
        principal=route.principal if "principal" in value else None,
    )


def _user(value: Mapping[str, object], path: str, faults: DocumentFaults) -> SectionItem:
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
    if mechanisms is None:
        return name, UserValues(None)
    if (
        not isinstance(mechanisms, list)
        or not all(isinstance(m, str) for m in mechanisms)
        or scram_users.mechanisms_problem(mechanisms) is not None
    ):
        faults.invalid(
            f"{path}.mechanisms",
            sentence(
                "A list of mechanisms is needed ({names}), not {given}.",
                names=scram_users.MECHANISMS,
                given=value_text(mechanisms),
            ),
        )
        return name, None
    return name, UserValues(tuple(sorted(set(mechanisms))))


def _broker_config(value: Mapping[str, object], path: str, faults: DocumentFaults) -> SectionItem:
    faults.unknown(path, value, BROKER_FIELDS)
    broker = value.get("broker")
    if broker is None:
        detail = sentence("This field is required: the ID of a broker, or {all}.", all=ALL_BROKERS)
        faults.add(f"{path}.broker", DocumentFault.REQUIRED, detail)
        return None, None
    if broker != ALL_BROKERS and (not isinstance(broker, int) or isinstance(broker, bool) or broker < 0):
        faults.invalid(
            f"{path}.broker",
            sentence("The ID of a broker or {all} is needed, not {given}.", all=ALL_BROKERS, given=repr(broker)),
        )
        return None, None
    return str(broker), BrokerConfigValues(_configs(value, path, faults))


def _role_binding(value: Mapping[str, object], path: str, faults: DocumentFaults) -> SectionItem:
    faults.unknown(path, value, BINDING_FIELDS)
    fields = {"pattern_type": AclPattern.LITERAL.value, **value}
    texts = {f: faults.text(path, fields, f) for f in BINDING_FIELDS if f not in ("user", "group")}
    for holder in ("user", "group"):
        given = value.get(holder, "")
        if not isinstance(given, str):
            faults.invalid(f"{path}.{holder}", sentence("A text is needed, not {given}.", given=value_text(given)))
            return None, None
        texts[holder] = given
    if bool(texts["user"]) == bool(texts["group"]):
        faults.add(f"{path}.user", DocumentFault.REQUIRED, sentence("Name a user or a group of users, and not both."))
    valid = {f: t for f, t in texts.items() if t is not None}
    if len(valid) < len(texts):
        return None, None
    binding = RoleBindingValues(**valid)
    try:
        check_grant(binding.role, binding.resource_type, binding.pattern_type, binding.resource_name)
    except Rejected as e:
        faults.invalid(f"{path}.{e.field}", e.reason)
    return binding_key(binding), binding


def binding_key(binding: RoleBindingValues) -> str:
    """The key of a role binding: its fields as a JSON list, because a name may have any character."""
    return json.dumps([getattr(binding, f) for f in BINDING_FIELDS], ensure_ascii=False)


SECTION_READERS: dict[ResourceKind, Callable[[Mapping[str, object], str, DocumentFaults], SectionItem]] = {
    ResourceKind.TOPIC: _topic,
    ResourceKind.ACL: _acl,
    ResourceKind.QUOTA: _quota,
    ResourceKind.ROUTE: _route,
    ResourceKind.USER: _user,
    ResourceKind.BROKER_CONFIG: _broker_config,
    ResourceKind.ROLE_BINDING: _role_binding,
}
