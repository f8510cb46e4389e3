"""Visibility of resources: the resources that a user may see. Pure.

Invariants: a user who may see everything has no names. Every role lets its holder see the resources of its binding. Does not contain: the condition of a
query (`controlplane.selectors.visibility`), who may see what (`controlplane.services.authorization`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.domain.access import AclPattern
from controlplane.domain.history import HistorySubject
from controlplane.domain.live_subject import LiveSubject
from controlplane.domain.roles import WILDCARD, Access, Grant, RoleResource


@dataclass(frozen=True, slots=True)
class Visibility:
    """`grants` None: every resource is visible."""

    grants: tuple[Grant, ...] | None = None

    @property
    def limited(self) -> bool:
        return self.grants is not None

    def sees(self, resource: RoleResource, name: str) -> bool:
        return self.grants is None or any(g.permits(Access.VIEW, resource, name) for g in self.grants)

    def sees_all(self, resource: RoleResource) -> bool:
        return self.grants is None or any(
            (g.pattern_type, g.resource_name) == (AclPattern.LITERAL, WILDCARD) for g in self._grants_of(resource)
        )

    def names(self, resource: RoleResource) -> frozenset[str]:
        """The literal names."""
        return frozenset(g.resource_name for g in self._grants_of(resource) if g.pattern_type is AclPattern.LITERAL)

    def prefixes(self, resource: RoleResource) -> frozenset[str]:
        """The prefixes, without those that begin with a shorter one."""
        found: list[str] = []
        for prefix in sorted(
            g.resource_name for g in self._grants_of(resource) if g.pattern_type is AclPattern.PREFIXED
        ):
            if not found or not prefix.startswith(found[-1]):
                found.append(prefix)
        return frozenset(found)

    def _grants_of(self, resource: RoleResource) -> Iterable[Grant]:
        return (g for g in self.grants or () if g.resource_type is resource)


EVERYTHING = Visibility()

_TOPICS = (LiveSubject.TOPIC, LiveSubject.MESSAGES, LiveSubject.PARTITION)
_BROKERS = (LiveSubject.BROKER, HistorySubject.BROKER_API)
_GROUPS = (LiveSubject.GROUP, LiveSubject.SHARE_GROUP, HistorySubject.SHARE_GROUP, LiveSubject.LAG)


def subject_visible(visibility: Visibility, subject: str) -> bool:
    """Return whether a live update or a history about this subject is visible: `topic:T`, `messages:T`, `partition:T:0`, `group:G`, `lag:G:T:0`, `broker:1`,
    `broker_api:1:Produce`. Values of moves and of the cluster are sums over all topics. The name of a panel (`topics`) causes only that the page reloads
    it."""
    if not visibility.limited:
        return True
    kind, colon, name = subject.partition(":")
    if not colon:
        return kind != LiveSubject.CLUSTER
    if kind == LiveSubject.PARTITION:
        name = name.rpartition(":")[0]
    if kind == LiveSubject.LAG:
        rest, _, _ = name.rpartition(":")
        name, _, topic = rest.rpartition(":")
        if not visibility.sees(RoleResource.TOPIC, topic):
            return False
    if kind in _BROKERS:
        return visibility.sees(RoleResource.BROKER, name.partition(":")[0])
    if kind in _TOPICS:
        return visibility.sees(RoleResource.TOPIC, name)
    return kind in _GROUPS and visibility.sees(RoleResource.GROUP, name)
