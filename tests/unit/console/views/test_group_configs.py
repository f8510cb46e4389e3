"""The pages of the configs of a group."""

from __future__ import annotations

import html
import re

import pytest
from django.test import Client

from controlplane.models import AccessEntry
from controlplane.services.group_configs import alter_group_configs
from tests.unit.controlplane.config_broker import ConfigBroker
from tests.unit.controlplane.world import World

LIST, EDIT = "/group-configs/team/workers/", "/edit/group-configs/team/workers/"
LOCK = "share.record.lock.duration.ms"


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch, world: World) -> ConfigBroker:
    return ConfigBroker({"team/workers": {LOCK: "20000"}}).replace_connections(monkeypatch)


def test_the_list_has_values_defaults_and_filters(operator: Client) -> None:
    page = operator.get(LIST).content.decode()
    assert "20 s" in page and "30 s" in page and page.count("<b>group</b>") == 1
    assert 'href="/groups/team/workers/"' not in page, "the kind of the group is unknown"
    assert "Set for this group 1" in page and "consumer.session.timeout.ms" in page
    shared = operator.get(f"{LIST}?only=share").content.decode()
    assert "consumer.session.timeout.ms" not in shared and '/share-groups/team/workers/"' in shared
    assert "No matching configs." in operator.get(f"{LIST}?q=nothing").content.decode()


def test_silent_brokers_are_not_shown_as_a_group_without_configs(operator: Client, broker: ConfigBroker) -> None:
    broker.silent = True
    assert "No broker answers, so the configs are unknown" in operator.get(LIST).content.decode()


def review(client: Client, **more: str) -> tuple[dict[str, str], str]:
    """The form values of the review page."""
    response = client.post(EDIT, {"name": LOCK, "value": "40000", "comment": "slow tasks", **more})
    text = response.content.decode()
    assert response.status_code == 200, text
    form = text[text.index('<form method="post" class="form"') :]
    fields = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form)
    return {name: html.unescape(value) for name, value in fields}, text


def test_a_config_is_reviewed_and_then_changed(operator: Client) -> None:
    fields, page = review(operator)
    assert not AccessEntry.objects.exists() and "Value of the group now" in page
    changed = operator.post(EDIT, fields, follow=True).content.decode()
    assert f"{LOCK} changed" in changed and 'href="/share-groups/team/workers/"' in changed
    assert AccessEntry.objects.get().value == {LOCK: "40000"}
    fields, _ = review(operator, value="", remove="on")
    operator.post(EDIT, fields)
    assert AccessEntry.objects.get().value is None


def test_a_rejected_change_keeps_the_form(operator: Client) -> None:
    response = operator.post(EDIT, {"name": LOCK, "value": "5", "comment": "x"})
    assert response.status_code == 400 and "15000 and 60000" in response.content.decode()
    both = operator.post(EDIT, {"name": LOCK, "value": "5", "remove": "on", "comment": "x"})
    assert both.status_code == 400 and "Leave the value empty" in both.content.decode()
    fields, _ = review(operator)
    alter_group_configs("team/workers", {LOCK: "50000"}, actor="another")
    assert "Review it again" in operator.post(EDIT, fields).content.decode()


def test_a_viewer_may_not_edit(viewer: Client) -> None:
    assert viewer.get(LIST).status_code == 200
    assert viewer.get(EDIT).status_code == 403
