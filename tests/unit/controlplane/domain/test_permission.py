"""The codes of the REST API are the reasons of the brokers' authorizer, and that there is none."""

from __future__ import annotations

from brokerd.authz.acls import DecisionReason
from controlplane.domain.permission import PermissionReason


def test_every_reason_of_the_authorizer_has_a_code() -> None:
    assert {r.name for r in DecisionReason} == {r.name for r in PermissionReason} - {
        PermissionReason.NO_AUTHORIZER.name
    }
