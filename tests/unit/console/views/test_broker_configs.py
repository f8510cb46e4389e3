"""The pages of broker settings."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client

from controlplane.clients.all_brokers import BrokerResponse
from controlplane.domain.broker_config import BrokerConfigSource, ReportedConfig
from controlplane.models import AccessEntry
from controlplane.selectors import broker_configs as selectors
from controlplane.services import broker_configs as services
from tests.unit.controlplane.world import World


@pytest.fixture(autouse=True)
def patch_responses(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    def values(broker_id: int) -> dict[str, ReportedConfig]:
        source = BrokerConfigSource.FILE
        found = [
            ReportedConfig("max.connections", str(broker_id), source, "2147483647", False, False, "Limit."),
            ReportedConfig("ssl.key.password", "hush-hush", source, None, True, True, "Password."),
            ReportedConfig("log.retention.ms", "604800000", BrokerConfigSource.DEFAULT, "604800000", False, False, ""),
        ]
        return {c.name: c for c in found}

    monkeypatch.setattr(
        selectors,
        "call_brokers",
        lambda brokers, call: [BrokerResponse(b.broker_id, values(b.broker_id)) for b in brokers],
    )


def test_the_list_has_sources_units_and_the_difference_and_no_secret(operator: Client) -> None:
    page = operator.get("/brokers/1/configs/?other=2").content.decode()
    assert "604800000" in page and "(7 d)" in page and re.search('<td class="sub"[^>]*>ms</td>', page)
    assert (
        page.count(">different</b>") == 1
        and page.count(">equal</span>") == 1
        and "hidden" in page
        and "hush-hush" not in page
    )
    changed = operator.get("/brokers/1/configs/?only=changed").content.decode()
    assert "max.connections" in changed and "log.retention.ms</span>" not in changed
    none = operator.get("/brokers/1/configs/?q=nothing").content.decode()
    assert "No matching configs." in none
    assert operator.get("/brokers/99/configs/").status_code == 404


def test_a_silent_broker_is_not_shown_as_one_without_settings(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectors, "call_brokers", lambda brokers, call: [BrokerResponse(1, None, "it is down")])
    assert "Broker 1 does not respond" in operator.get("/brokers/1/configs/").content.decode()


def test_the_form_has_the_present_value_its_source_and_the_default(operator: Client) -> None:
    page = operator.get("/brokers/1/configs/edit/?name=log.retention.ms").content.decode()
    assert (
        '604800000 <span class="sub">(7 d)</span></span> ms' in page
        and "<dt>Source</dt>" in page
        and "<dt>Default</dt>" in page
    )
    assert "or has no such config." in operator.get("/brokers/1/configs/edit/?name=log.retention").content.decode()
    assert "<dt>Now</dt>" not in operator.get("/brokers/1/configs/edit/").content.decode(), "no config is chosen yet"


def review(client: Client, **more: str) -> tuple[dict[str, str], str]:
    """The form values of the review page."""
    typed = {"name": "max.connections", "scope": "broker", "value": "5", "comment": "leak", **more}
    response = client.post("/brokers/1/configs/edit/", typed)
    text = response.content.decode()
    assert response.status_code == 200 and not AccessEntry.objects.filter(value=typed["value"]).exists(), text
    form = text[text.index('<form method="post" class="form"') :]
    fields = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form)
    return {name: html.unescape(value) for name, value in fields}, text


def test_a_setting_is_reviewed_and_then_changed(operator: Client) -> None:
    fields, page = review(operator)
    assert not AccessEntry.objects.exists() and "Dynamic value now" in page
    response = operator.post("/brokers/1/configs/edit/", fields, follow=True)
    assert "max.connections changed" in response.content.decode()
    assert AccessEntry.objects.get().value == {"max.connections": "5"}
    fields, page = review(operator, name="log.retention.ms", scope="cluster", value="60000")
    assert "applies to all brokers" in page
    operator.post("/brokers/1/configs/edit/", fields)
    assert AccessEntry.objects.get(key="-1").value == {"log.retention.ms": "60000"}


def test_a_change_since_the_review_leads_back_to_the_form(operator: Client) -> None:
    fields, _ = review(operator)
    services.alter_configs(1, {"max.connections": "6"}, actor="another")
    response = operator.post("/brokers/1/configs/edit/", fields)
    assert response.status_code == 400 and "Review it again" in response.content.decode()
    without: dict[str, Any] = {**fields, "reviewed": "nonsense"}
    assert "no reviewed change" in operator.post("/brokers/1/configs/edit/", without).content.decode()
    assert AccessEntry.objects.get().value == {"max.connections": "6"}


def test_errors_of_the_form(operator: Client, viewer: Client) -> None:
    both = {"name": "max.connections", "scope": "broker", "value": "5", "remove": "on", "comment": "x"}
    assert "Leave the value empty" in operator.post("/brokers/1/configs/edit/", both).content.decode()
    wrong = {**both, "remove": "", "name": "log.dirs"}
    assert "while the broker runs" in operator.post("/brokers/1/configs/edit/", wrong).content.decode()
    assert viewer.post("/brokers/1/configs/edit/", wrong).status_code == 403
    filled = operator.get("/brokers/1/configs/edit/?name=max.connections&value=7&scope=cluster").content.decode()
    assert 'value="max.connections"' in filled and 'value="cluster" selected' in filled
