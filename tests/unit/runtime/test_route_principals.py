"""Permissions and quotas of the principals of routes, with the ACLs of an image and the rates of a broker."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.authz.acls import AclEntry, Operation, PatternType, Permission, Resource
from brokerd.authz.authorizer import Authorizer
from brokerd.authz.quotas import Quotas
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import AccessChanged
from brokerd.cluster.model import Now
from brokerd.cluster.quota_entities import CLIENT, FETCH, PRODUCE, USER, entity_key
from brokerd.runtime.route_principals import RoutePrincipals
from tests.unit.authz.scene import SETTINGS

GROUP = "weir.route.r"


class Scene:
    def __init__(self, **settings: Any) -> None:
        self.image = Image()
        self.authorizer = Authorizer({**SETTINGS, **settings}, lambda: self.image)
        self.quotas = Quotas()
        self.principals = RoutePrincipals(self.authorizer, self.quotas)

    def allow(
        self, host: str = "*", permission: Permission = Permission.ALLOW, operation: Operation = Operation.WRITE
    ) -> None:
        acl = AclEntry(Resource.TOPIC, PatternType.LITERAL, "t", "User:alice", host, operation, permission)
        self.image.apply(AccessChanged("acl", acl.key, 1, acl.to_json()))
        self.authorizer.on_acls_changed()

    def may_write(self, principal: str = "User:alice") -> bool:
        return self.principals.allowed(principal, Operation.WRITE, "t")

    def count(self, size: int, ms: int = 0) -> int:
        return self.principals.count_bytes("User:alice", GROUP, PRODUCE, size, Now(ms, ms))


def test_a_principal_needs_an_acl_of_its_own() -> None:
    scene = Scene()
    assert not scene.may_write()
    scene.allow()
    assert scene.may_write() and not scene.may_write("User:bob")
    scene.allow(permission=Permission.DENY)
    assert not scene.may_write()


@pytest.mark.parametrize("permission", [Permission.ALLOW, Permission.DENY])
def test_an_acl_that_names_a_host_applies_to_no_route(permission: Permission) -> None:
    scene = Scene()
    scene.allow("10.0.0.1", permission)
    assert not scene.may_write()
    scene.allow()
    assert scene.may_write()


def test_everything_is_allowed_without_an_authorizer_and_to_super_users() -> None:
    assert Scene(**{"authorizer.class.name": ""}).may_write()
    assert Scene(**{"super.users": frozenset({"User:alice"})}).may_write()


@pytest.mark.parametrize("entity", [{USER: "alice"}, {CLIENT: GROUP}, {USER: "alice", CLIENT: GROUP}, {USER: None}])
def test_a_route_waits_as_long_as_a_client_after_this_request(entity: dict[str, str | None]) -> None:
    scene = Scene()
    scene.quotas.set([(entity_key(entity), {PRODUCE: 1_000})])
    assert scene.principals.quota_limit("User:alice", GROUP, PRODUCE) == 1_000
    assert scene.principals.quota_limit("User:alice", GROUP, FETCH) is None
    assert scene.count(10_000) == 0
    assert scene.count(290_000) == 290_000, "the rate is 30,000 per second, over ten seconds"


def test_the_rate_is_shared_with_the_clients_of_the_user() -> None:
    scene = Scene()
    scene.quotas.set([(entity_key({USER: "alice"}), {PRODUCE: 1_000})])
    bucket, _ = scene.quotas.limit(PRODUCE, "alice", "a producer") or ("", 0.0)
    scene.quotas.rate(PRODUCE, bucket).add(30_000, 0)
    assert scene.count(1)


def test_nothing_is_counted_without_a_quota() -> None:
    scene = Scene()
    assert scene.count(30_000) == 0
    assert scene.quotas.use(1, 10) == []
