"""May this principal, from this host, do this to that? Kafka's rules (StandardAuthorizer).

Laws: a denial beats every permission; super users may do everything; without a word about a resource the answer is no, unless `allow.everyone.if.no.acl.found`. Pure: a set
of ACLs in, answers out. Called by the guards; made anew when the metadata log changes an ACL. docs/acl-cases.md is its table of cases, under test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

DECISIONS_MAX = 50_000
"""Answers remembered between two changes of ACLs."""
CLUSTER_NAME = "kafka-cluster"
WILDCARD = "*"
ANYBODY = "User:*"


class Resource(IntEnum):
    UNKNOWN, ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = range(8)


class Pattern(IntEnum):
    UNKNOWN, ANY, MATCH, LITERAL, PREFIXED = range(5)


class Operation(IntEnum):
    UNKNOWN, ANY, ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = range(9)
    CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT = range(9, 16)  # fmt: skip


class Permission(IntEnum):
    UNKNOWN, ANY, DENY, ALLOW = range(4)


O = Operation  # noqa: E741
SUPPORTED: Mapping[Resource, tuple[Operation, ...]] = {
    Resource.TOPIC: (O.READ, O.WRITE, O.CREATE, O.DELETE, O.ALTER, O.DESCRIBE, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS),
    Resource.GROUP: (O.READ, O.DELETE, O.DESCRIBE, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS),
    Resource.CLUSTER: (O.CREATE, O.CLUSTER_ACTION, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS, O.IDEMPOTENT_WRITE, O.ALTER, O.DESCRIBE),
    Resource.TRANSACTIONAL_ID: (O.DESCRIBE, O.WRITE, O.TWO_PHASE_COMMIT),
    Resource.DELEGATION_TOKEN: (O.DESCRIBE,),
    Resource.USER: (O.CREATE_TOKENS, O.DESCRIBE_TOKENS),
}  # fmt: skip
"""What can be done to each kind of resource: also what `authorized operations` speak of."""
_IMPLIED_BY = {
    O.DESCRIBE: {O.DESCRIBE, O.READ, O.WRITE, O.DELETE, O.ALTER},
    O.DESCRIBE_CONFIGS: {O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS},
}
"""Permission to do one of these is permission to look. A denial implies nothing."""


class Acl(NamedTuple):
    resource: Resource
    pattern: Pattern
    name: str
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def to_json(self) -> dict[str, str]:
        """The words of the control plane's table."""
        return {
            "resource_type": self.resource.name.lower(), "pattern_type": self.pattern.name.lower(), "resource_name": self.name,
            "principal": self.principal, "host": self.host, "operation": self.operation.name.lower(),
            "permission": self.permission.name.lower(),
        }  # fmt: skip

    @property
    def key(self) -> str:
        return "|".join(word.replace("|", "\\|") for word in self.to_json().values())

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Acl:
        """Raises KeyError for words that are none."""
        return Acl(
            Resource[data["resource_type"].upper()], Pattern[data["pattern_type"].upper()], data["resource_name"],
            data["principal"], data["host"], Operation[data["operation"].upper()], Permission[data["permission"].upper()],
        )  # fmt: skip

    def concerns(self, principal: str, host: str) -> bool:
        return self.principal in (principal, ANYBODY) and self.host in (host, WILDCARD)


class Acls:
    """All of them, and the answers they give."""

    def __init__(self, acls: Iterable[Acl] = (), super_users: Iterable[str] = (), allow_if_none: bool = False) -> None:
        self._super_users, self._allow_if_none = frozenset(super_users), allow_if_none
        self.all = tuple(acls)
        self._literal: dict[tuple[Resource, str], list[Acl]] = {}
        self._prefixed: dict[tuple[Resource, str], list[Acl]] = {}
        for acl in self.all:
            place = self._literal if acl.pattern is Pattern.LITERAL else self._prefixed
            place.setdefault((acl.resource, acl.name), []).append(acl)
        self._lengths = sorted({len(name) for _, name in self._prefixed})
        self._decided: dict[tuple[str, str, Operation, Resource, str], bool] = {}

    def about(self, resource: Resource, name: str) -> list[Acl]:
        """Those that speak of this resource."""
        out = [
            *self._literal.get((resource, name), ()),
            *(self._literal.get((resource, WILDCARD), ()) if name != WILDCARD else ()),
        ]
        for length in self._lengths:
            if length > len(name):
                break
            out += self._prefixed.get((resource, name[:length]), ())
        return out

    def allowed(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        question = (principal, host, operation, resource, name)
        known = self._decided.get(question)
        if known is None:
            if len(self._decided) >= DECISIONS_MAX:
                self._decided.clear()
            known = self._decided[question] = self._decide(*question)
        return known

    def _decide(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        if principal in self._super_users:
            return True
        about = self.about(resource, name)
        if not about:
            return self._allow_if_none
        concerning = [a for a in about if a.concerns(principal, host)]
        if any(a.permission is Permission.DENY and a.operation in (operation, O.ALL) for a in concerning):
            return False
        enough = {*_IMPLIED_BY.get(operation, {operation}), O.ALL}
        return any(a.permission is Permission.ALLOW and a.operation in enough for a in concerning)

    def allowed_anywhere(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """On at least one resource of this kind, of whatever name (Kafka's authorizeByResourceType)."""
        if principal in self._super_users:
            return True
        mine = [
            a
            for a in self.all
            if a.resource is resource and a.concerns(principal, host) and a.operation in (operation, O.ALL)
        ]
        denied = [a for a in mine if a.permission is Permission.DENY]
        if any(d.pattern is Pattern.LITERAL and d.name == WILDCARD for d in denied):
            return False
        for allow in mine:
            if allow.permission is not Permission.ALLOW:
                continue
            if not any(self._covers(d, allow) for d in denied):
                return True
        return self._allow_if_none and not self._literal and not self._prefixed

    @staticmethod
    def _covers(denied: Acl, allow: Acl) -> bool:
        """Whether the denial leaves nothing of this permission."""
        if denied.pattern is Pattern.PREFIXED:
            return allow.name.startswith(denied.name) and (allow.pattern is Pattern.PREFIXED or allow.name != WILDCARD)
        return allow.pattern is Pattern.LITERAL and denied.name == allow.name

    def operations(self, principal: str, host: str, resource: Resource, name: str) -> int:
        """What may be done, as the bits of `authorized operations`."""
        return sum(1 << o for o in SUPPORTED[resource] if self.allowed(principal, host, o, resource, name))


class Filter(NamedTuple):
    """What DescribeAcls and DeleteAcls ask for; None and ANY match everything."""

    resource: int
    pattern: int
    name: str | None
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def problem(self) -> str | None:
        if self.resource not in range(1, 8) or self.pattern not in range(1, 5):
            return "the filter's resource or pattern type is not known"
        if self.operation not in range(1, 16) or self.permission not in range(1, 4):
            return "the filter's operation or permission type is not known"
        return None

    def fits(self, acl: Acl) -> bool:
        return (
            self.resource in (Resource.ANY, acl.resource)
            and self._fits_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (O.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _fits_name(self, acl: Acl) -> bool:
        if self.pattern not in (Pattern.ANY, Pattern.MATCH, acl.pattern):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern != Pattern.MATCH:
            return False
        return acl.name == WILDCARD if acl.pattern is Pattern.LITERAL else self.name.startswith(acl.name)
