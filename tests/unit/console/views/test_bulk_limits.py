"""Limits of the quotas and throttles of the moves of a filter: form, preview, results, roles."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from controlplane.models import AccessEntry, Change, Move
from controlplane.services import quotas
from controlplane.services.role_bindings import create_binding

LIMITS, THROTTLES = "/bulk/quota-limits/", "/bulk/move-throttles/"


@pytest.fixture
def keys(seeded_cluster: dict[str, Any]) -> list[str]:
    rows = [quotas.set_quota({"user": n}, {"producer_byte_rate": 5e6}, actor="ada") for n in ("mail-1", "mail-2")]
    return [str(r.pk) for r in rows]


def hidden_fields(page: str) -> dict[str, str]:
    return {n: unescape(v) for n, v in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page)}


def test_limits_of_the_quotas_of_the_filter_are_changed(keys: list[str], operator: Client) -> None:
    address = f"{LIMITS}?q=mail-"
    form_page = " ".join(operator.get(address).content.decode().split())
    assert "Limits now" in form_page and "Producer, MB/s: 5</div>" in form_page
    assert "Change the limits of 2 quotas" in form_page
    for wrong in ({"comment": "x"}, {"consumer_byte_rate": "2"}, {"consumer_byte_rate": "-2", "comment": "x"}):
        assert operator.post(address, {"step": "review", **wrong}).status_code == 400
    form = {"step": "review", "consumer_byte_rate": "2", "producer_byte_rate": "0", "comment": "noisy"}
    page = operator.post(address, form).content.decode()
    assert "Change 2 rows" in page and "no limit" in page and ">2</span>" in page
    assert AccessEntry.objects.get(pk=keys[0]).value == {"producer_byte_rate": 5e6}
    response = operator.post(address, hidden_fields(page))
    assert response.status_code == 200 and "Result" in response.content.decode()
    assert [AccessEntry.objects.get(pk=k).value for k in keys] == [{"consumer_byte_rate": 2e6}] * 2
    assert Change.objects.filter(verb="quota.set", comment="noisy").count() == 2
    page = operator.post(address, {**form, "producer_byte_rate": ""}).content.decode()
    assert "no change" in page and "Change 0 rows" in page


def test_the_throttle_of_the_active_moves_is_changed(seeded_cluster: dict[str, Any], operator: Client) -> None:
    active = list(Move.objects.filter(finished_at=None).values_list("pk", flat=True))
    finished = Move.objects.exclude(pk__in=active).values_list("pk", "throttle_bytes_per_s")
    before = dict(finished)
    assert active
    form = {"step": "review", "throttle_bytes_per_s": "7", "comment": "slow"}
    without_a_value = operator.post(THROTTLES, {**form, "throttle_bytes_per_s": ""})
    assert without_a_value.status_code == 400 and "Change 0 rows" not in without_a_value.content.decode()
    assert "no throttle</span>" in operator.post(THROTTLES, {**form, "throttle_bytes_per_s": "0"}).content.decode()
    page = operator.post(THROTTLES, form).content.decode()
    assert "Throttle, MB/s: " in page and ">7</span>" in page and f"move {active[0]}" in page
    chinese = operator.post(THROTTLES, form, headers={"accept-language": "zh-hans"}).content.decode()
    assert f"迁移 {active[0]}" in chinese and f"move {active[0]}" not in chinese
    response = operator.post(THROTTLES, hidden_fields(page))
    assert response.status_code == 200
    changed = set(Move.objects.filter(throttle_bytes_per_s=7_000_000).values_list("pk", flat=True))
    assert changed and changed <= set(active)
    assert dict(finished.all()) == before


def test_a_role_permits_the_rows_of_its_pattern_only(keys: list[str], viewer: Client) -> None:
    assert viewer.get(LIMITS).status_code == viewer.get(THROTTLES).status_code == 403
    client = Client()
    client.force_login(get_user_model().objects.create_user("team"))
    create_binding(
        user="team",
        role="operator",
        resource_type="quota",
        pattern_type="prefixed",
        resource_name="user mail-",
        actor="root",
    )
    assert client.get(f"{LIMITS}?q=mail-").status_code == 200
    other = quotas.set_quota({"user": "shop"}, {"producer_byte_rate": 5e6}, actor="ada")
    assert client.get(LIMITS).status_code == 403
    form = {"step": "apply", "keys": f'["{other.pk}"]', "consumer_byte_rate": "2", "comment": "x"}
    assert client.post(f"{LIMITS}?q=mail-", form).status_code == 403
    assert AccessEntry.objects.get(pk=other.pk).value == {"producer_byte_rate": 5e6}
