"""Values of the resources of a cluster document: one class per kind, and their JSON form, which the rows of plans contain.

Invariants: the JSON form of a value stays as it is, because stored plans have it. `from_json` returns a value of the class of the kind, or raises
MalformedJson with the path, the value and the expected type. Does not contain: checks of what a person wrote (`cluster_document`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from brokerd.cluster import typed_json
from brokerd.cluster.routes import RouteStart


class ResourceKind(StrEnum):
    """Kinds of resources in the order in which they are created. They are deleted in the opposite order."""

    TOPIC = "topic"
    ACL = "acl"
    QUOTA = "quota"
    ROUTE = "route"
    USER = "user"
    BROKER_CONFIG = "broker_config"
    ROLE_BINDING = "role_binding"


ResourceId = tuple[ResourceKind, str]
"""(kind, key). The key is the name of a topic, route or user, the fields of an ACL or role binding, the entity of a quota, the ID of a broker or
ALL_BROKERS."""


@dataclass(frozen=True, slots=True)
class TopicValues:
    """A count of None does not change. A config of None is removed."""

    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class AclValues:
    resource_type: str
    pattern_type: str
    resource_name: str
    principal: str
    host: str
    operation: str
    permission: str


@dataclass(frozen=True, slots=True)
class QuotaValues:
    """`entity`: {entity type: name}; the name None is the default entity. A limit of None is removed."""

    entity: Mapping[str, str | None]
    limits: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class RouteValues:
    """`bindings`: as `brokerd.cluster.routes.route_of` reads them. `principal` None: in a document, it does not change; in the cluster, there is none. The
    defaults are those of a route in the metadata log without the field."""

    source: str
    start: str = RouteStart.LATEST.value
    enabled: bool = True
    owner: str = ""
    description: str = ""
    bindings: object = ()
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class UserValues:
    """`mechanisms`: sorted. None: the document does not name them."""

    mechanisms: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class BrokerConfigValues:
    """A config of None is removed."""

    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class RoleBindingValues:
    """Either `user` or `group` is empty."""

    user: str
    group: str
    role: str
    resource_type: str
    pattern_type: str
    resource_name: str


DocumentValues = (
    TopicValues | AclValues | QuotaValues | RouteValues | UserValues | BrokerConfigValues | RoleBindingValues
)

CLASSES: dict[ResourceKind, type[DocumentValues]] = {
    ResourceKind.TOPIC: TopicValues,
    ResourceKind.ACL: AclValues,
    ResourceKind.QUOTA: QuotaValues,
    ResourceKind.ROUTE: RouteValues,
    ResourceKind.USER: UserValues,
    ResourceKind.BROKER_CONFIG: BrokerConfigValues,
    ResourceKind.ROLE_BINDING: RoleBindingValues,
}


def to_json(values: DocumentValues) -> dict[str, object]:
    """The values as plans store them. A route without a principal has no such field."""
    data = typed_json.encode_record(values)
    if isinstance(values, RouteValues) and values.principal is None:
        del data["principal"]
    return data


def from_json(kind: ResourceKind, data: object, path: str = "") -> DocumentValues:
    """The values of a resource of this kind. `path`: of the values, for the error. Raises MalformedJson."""
    values: DocumentValues = typed_json.decode(CLASSES[kind], data, path)
    return values
