"""Whether the brokers enforce ACLs, by the settings that they report."""

from __future__ import annotations

import pytest

from controlplane.clients.all_brokers import BrokerResponse
from controlplane.domain.broker_config import BrokerConfigSource, ReportedConfig
from controlplane.selectors import authorizers
from controlplane.selectors.authorizers import AuthorizerReport, AuthorizerState, authorizer_report
from controlplane.selectors.permissions import AuthorizerOptions, check_permission, permission_list
from controlplane.services import acls
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
READ = {"principal": "User:ann", "resource_type": "topic", "resource_name": "orders", "operation": "read"}
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def settings(**values: str | None) -> dict[str, ReportedConfig]:
    names = {"authorizer": "authorizer.class.name", "users": "super.users", "free": "allow.everyone.if.no.acl.found"}
    return {
        names[key]: ReportedConfig(names[key], value, BrokerConfigSource.FILE, None, True, False, "")
        for key, value in values.items()
    }


def report_of(monkeypatch: pytest.MonkeyPatch, *responses: dict[str, ReportedConfig] | None) -> AuthorizerReport:
    World(brokers=len(responses))
    found = [BrokerResponse(i, value) for i, value in enumerate(responses, 1)]
    monkeypatch.setattr(authorizers, "call_brokers", lambda brokers, call: found)
    return authorizer_report()


def test_without_an_authorizer_everything_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(monkeypatch, settings(authorizer=""), settings(authorizer=None))
    assert (report.state, report.without) == (AuthorizerState.NONE, (1, 2))
    acls.create_acl(
        resource_type="topic",
        resource_name="orders",
        principal="User:ann",
        operation="read",
        permission="deny",
        actor="o",
    )
    options = report.options(AuthorizerOptions())
    check = check_permission(**READ, options=options)
    assert (check.allowed, check.reason, check.acl) == (True, "no_authorizer", None) and len(check.acls) == 1
    (row,) = permission_list(principal="User:ann", options=options).rows
    assert row.denied == [] and {o.reason for o in row.operations} == {"no_authorizer"}


def test_the_settings_on_which_the_brokers_agree_complete_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(
        monkeypatch,
        settings(authorizer=STANDARD, users="User:root; User:one", free="true"),
        settings(authorizer=STANDARD, users="User:root", free="true"),
    )
    assert report == AuthorizerReport(AuthorizerState.ENFORCED, ("User:root",), True, enforcing=(1, 2))
    assert report.options(AuthorizerOptions(("User:ann",))) == AuthorizerOptions(("User:ann", "User:root"), True)


def test_a_broker_without_an_authorizer_and_a_silent_one_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(monkeypatch, settings(authorizer=STANDARD, free="false"), settings(authorizer=""), None)
    assert report == AuthorizerReport(AuthorizerState.DIFFERENT, without=(2,), silent=(3,), enforcing=(1,))
    assert report.options(AuthorizerOptions()) == AuthorizerOptions()


def test_without_a_response_the_acls_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(monkeypatch, None)
    assert report == AuthorizerReport(AuthorizerState.UNKNOWN, silent=(1,))
    check = check_permission(**READ, options=report.options(AuthorizerOptions()))
    assert (check.allowed, check.reason) == (False, "no_acl_of_resource")
