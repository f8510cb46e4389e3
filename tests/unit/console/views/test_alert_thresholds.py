"""The pages of thresholds."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from controlplane.models import AlertThreshold

EDIT = "/alerts/thresholds/disk_free_low/"


@pytest.fixture
def administrator(db: None) -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_user("root", is_staff=True, is_superuser=True))
    return client


def test_an_administrator_changes_and_resets_a_threshold(administrator: Client) -> None:
    assert 'value="10"' in administrator.get(EDIT).content.decode()
    done = administrator.post(EDIT, {"value": "12.5", "comment": "small disks"}, follow=True)
    page = done.content.decode()
    assert "Threshold disk free low changed" in page and "<b>12.5 %</b>" in page and "root" in page
    administrator.post(EDIT, {"value": "", "comment": "usual disks"})
    assert not AlertThreshold.objects.exists()


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ({"value": "200", "comment": "x"}, "Enter a value from 0 to 90"),
        ({"value": "1", "comment": "x"}, "may not be greater than"),
        ({"value": "20", "comment": ""}, "Give a reason"),
    ],
)
def test_a_refusal_is_beside_its_field(administrator: Client, form: dict[str, str], text: str) -> None:
    answer = administrator.post(EDIT, form)
    assert answer.status_code == 400 and text in answer.content.decode()
    assert not AlertThreshold.objects.exists()


def test_operators_and_viewers_read_only(operator: Any, viewer: Client) -> None:
    for client in (operator, viewer):
        page = client.get("/alerts/thresholds/").content.decode()
        assert "2 h" in page and "never" in page
        assert client.post(EDIT, {"value": "20", "comment": "x"}).status_code == 403
    assert not AlertThreshold.objects.exists()


def test_an_unknown_threshold_is_not_found(administrator: Client) -> None:
    assert administrator.get("/alerts/thresholds/no_such/").status_code == 404
