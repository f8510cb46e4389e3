"""The authorizer: which requests must be authorized, and ACLs of the metadata log that apply to the next request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.authz.acls import Operation, Resource
from brokerd.authz.authorizer import Authorizer
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import AccessChanged
from brokerd.wire.apis import ApiKey
from tests.unit.authz.scene import SETTINGS, parse


def authorizer(image: Image, **settings: Any) -> Authorizer:
    return Authorizer({**SETTINGS, **settings}, lambda: image)


def may_read(it: Authorizer) -> bool:
    return it.acls().allowed("User:alice", "10.0.0.1", Operation.READ, Resource.TOPIC, "t")


@pytest.mark.parametrize(
    ("key", "pending"),
    [(ApiKey.PRODUCE, True), (ApiKey.API_VERSIONS, False), (ApiKey.SASL_HANDSHAKE, False), (ApiKey.HEARTBEAT, True)],
)
def test_only_apis_without_a_permission_may_be_answered_unauthorized(key: ApiKey, pending: bool) -> None:
    for enabled in (True, False):
        request: Any = SimpleNamespace(header=SimpleNamespace(api_key=key))
        authorizer(Image(), **{"authorizer.class.name": "x" if enabled else ""}).require(request)
        assert request.authorization_pending is (pending and enabled)


def test_a_changed_acl_applies_after_the_notification() -> None:
    image = Image()
    it = authorizer(image)
    assert not may_read(it)
    image.apply(AccessChanged("acl", "k", 1, parse("allow User:alice * read topic t").to_json()))
    assert not may_read(it), "the ACLs are built once, not for each request"
    it.on_acls_changed()
    assert may_read(it)


def test_an_acl_of_a_newer_version_is_reported_and_does_not_count(caplog: pytest.LogCaptureFixture) -> None:
    image = Image()
    entry = parse("allow User:alice * read topic t").to_json()
    image.apply(AccessChanged("acl", "new", 1, {k: v for k, v in entry.items() if k != "operation"}))
    image.apply(AccessChanged("acl", "deleted", 2, None))
    image.apply(AccessChanged("acl", "number", 3, {**entry, "operation": 3}))
    assert not may_read(authorizer(image)) and "invalid ACL ignored: acl='new'" in caplog.text
    assert "acl='number' error=operation: invalid value 3, expected a string" in caplog.text


def test_super_users_and_the_default_come_from_the_settings() -> None:
    assert may_read(authorizer(Image(), **{"super.users": ("User:alice",)}))
    assert may_read(authorizer(Image(), **{"allow.everyone.if.no.acl.found": True}))
