"""Pages of the next steps of health checks."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from django.urls import resolve

from console import health_steps
from console.health_steps import step_link
from controlplane.domain.health import RULE_OF, CheckName, CheckScope
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_each_check_has_a_step_for_itself_and_for_an_object(world: World) -> None:
    subjects = {CheckScope.BROKER: "1", CheckScope.TOPIC: "a", CheckScope.GROUP: "a/b", CheckScope.CLUSTER: ""}
    for check, rule in RULE_OF.items():
        for subject in ("", subjects[rule.scope]):
            found = step_link(check, subject)
            assert found is not None and resolve(urlsplit(found.url).path).url_name != "missing", check


def test_a_user_without_access_to_the_page_of_a_step_has_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_steps, "may_be_shown", lambda url: not url.startswith("/brokers/"))
    assert step_link(CheckName.REPLICA_BALANCE) is None and step_link(CheckName.GROUP_PROGRESS, "g") is not None
