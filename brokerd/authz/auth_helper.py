"""Authorization inside request handlers (Kafka's AuthHelper): a handler authorizes the resources of its request itself.

Invariant: a request whose handler has authorized nothing is not answered (`Request.authorization_pending`). Does not decide permissions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol, TypeVar

from brokerd.authz.acls import CLUSTER_NAME, SUPPORTED, Acls, Operation, Resource
from brokerd.net.rejections import Denial
from brokerd.net.request import Request
from brokerd.wire.errors import ErrorCode

T = TypeVar("T")

AUTHORIZATION_FAILED: Mapping[Resource, ErrorCode] = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Resource.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error of an unauthorized operation on a resource of this type."""
MESSAGE = "Authorization failed."
"""Kafka's error message, in the responses that have one per resource."""


class AclSource(Protocol):
    """The part of the authorizer that handlers use."""

    enabled: bool

    def acls(self) -> Acls: ...


class AuthHelper:
    def __init__(self, authorizer: AclSource | None) -> None:
        """If `authorizer` is None, every operation is allowed."""
        self._authorizer = authorizer
        self.enabled = authorizer is not None and authorizer.enabled
        """If False, every operation is allowed, and handlers need not check."""

    def authorize(self, request: Request, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        if self._allowed(request, operation, resource, name):
            return True
        code = AUTHORIZATION_FAILED.get(resource, ErrorCode.NONE)
        request.denial = Denial(code, operation.name, resource.name, name)
        return False

    def _allowed(self, request: Request, operation: Operation, resource: Resource, name: str) -> bool:
        request.authorization_pending = False
        if not self.enabled or self._authorizer is None or request.from_privileged_listener:
            return True
        return self._authorizer.acls().allowed(request.principal, request.client_host, operation, resource, name)

    def authorize_by_resource_type(self, request: Request, operation: Operation, resource: Resource) -> bool:
        """Return whether the operation is allowed on at least one resource of this type."""
        request.authorization_pending = False
        if not self.enabled or self._authorizer is None or request.from_privileged_listener:
            return True
        return self._authorizer.acls().allowed_anywhere(request.principal, request.client_host, operation, resource)

    def authorized_operations(self, request: Request, resource: Resource, name: str = CLUSTER_NAME) -> int:
        """The allowed operations of a resource, as a bit field with a bit per operation code."""
        return sum(1 << o for o in SUPPORTED[resource] if self._allowed(request, o, resource, name))

    def describable_topics(self, request: Request) -> Callable[[str], bool] | None:
        """A function that returns whether the client may describe a topic. The function uses the ACLs at the time of its call, which may be later than the
        request. None if the client may describe every topic."""
        if not self.enabled:
            return None
        return partial(self.authorize, request, Operation.DESCRIBE, Resource.TOPIC)

    def may_describe_all(self, request: Request, topics: Iterable[str]) -> bool:
        """Return whether the client may describe each of these topics."""
        _, unauthorized = self.partition_by_authorized(
            request, Operation.DESCRIBE, Resource.TOPIC, topics, lambda name: name
        )
        return not unauthorized

    def partition_by_authorized(
        self,
        request: Request,
        operation: Operation,
        resource: Resource,
        items: Iterable[T],
        name_of: Callable[[T], str | None],
    ) -> tuple[list[T], list[T]]:
        """(authorized, unauthorized) items. An item without a name is authorized: the handler reports that it does not exist."""
        request.authorization_pending = False
        if not self.enabled:
            return [*items], []
        authorized: list[T] = []
        unauthorized: list[T] = []
        for item in items:
            name = name_of(item)
            fine = name is None or self.authorize(request, operation, resource, name)
            (authorized if fine else unauthorized).append(item)
        return authorized, unauthorized

    def partition_by_authorized_resource(
        self,
        request: Request,
        operation: Operation,
        items: Iterable[T],
        resource_of: Callable[[T], tuple[Resource, str]],
    ) -> tuple[list[T], list[T]]:
        """(authorized, unauthorized) items whose resources, (type, name), have different types."""
        request.authorization_pending = False
        authorized: list[T] = []
        unauthorized: list[T] = []
        for item in items:
            fine = self.authorize(request, operation, *resource_of(item))
            (authorized if fine else unauthorized).append(item)
        return authorized, unauthorized

    def filter_by_authorized(
        self,
        request: Request,
        operation: Operation,
        resource: Resource,
        items: Iterable[T],
        name_of: Callable[[T], str | None],
    ) -> list[T]:
        return self.partition_by_authorized(request, operation, resource, items, name_of)[0]


ALLOW_ALL = AuthHelper(None)
