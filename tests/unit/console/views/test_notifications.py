"""The pages of notification channels, with a real receiver for the test button."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from controlplane.models import Change, NotificationChannel, NotificationDelivery
from controlplane.services import notification_channels
from tests.unit.controlplane.receivers import HttpReceiver, http_receiver


@pytest.fixture
def administrator(db: None) -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_user("root", is_staff=True, is_superuser=True))
    return client


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with http_receiver() as found:
        yield found


def form(**given: Any) -> dict[str, Any]:
    return {"name": "ops", "severity_min": "degraded", "send_resolved": "on", "enabled": "on", "comment": "", **given}


def text(page: Any) -> str:
    return " ".join(page.content.decode().split())


def test_an_administrator_creates_edits_tests_and_deletes_a_channel(
    administrator: Client, receiver: HttpReceiver
) -> None:
    address = f"{receiver.url}/hook/p4th"
    created = administrator.post("/new/notification/?kind=webhook", form(url=address, secret="s3cret"))
    row = NotificationChannel.objects.get()
    page = f"/notifications/{row.pk}/"
    assert created.status_code == 302 and created["Location"] == page and row.secret == "s3cret"
    receiver.responses = [(403, "token revoked")]
    response = administrator.post(f"{page}test/", follow=True)
    assert "Test notification failed: 403 token revoked" in text(response) and "failing" in text(response)
    receiver.responses = [(200, "accepted")]
    assert "Test notification delivered: 200 accepted" in text(administrator.post(f"{page}test/", follow=True))
    assert administrator.post(f"{page}edit/", form(name="on call", remove_secret="on")).status_code == 302
    row.refresh_from_db()
    assert (row.name, row.url, row.secret, row.enabled) == ("on call", address, "", True)
    for path in (
        page,
        f"{page}edit/",
        "/notifications/",
        "/notifications/?q=call",
        "/notifications/deliveries/",
        "/audit/",
    ):
        shown = text(administrator.get(path))
        assert "p4th" not in shown and "s3cret" not in shown
    assert "No more alerts are sent to http://127.0.0.1" in text(administrator.get(f"{page}delete/"))
    assert administrator.post(f"{page}delete/", {"comment": "moved"}).status_code == 302
    assert administrator.get(page).status_code == 404 and not NotificationDelivery.objects.exists()
    assert "p4th" not in str(list(Change.objects.values())) and "s3cret" not in str(list(Change.objects.values()))


def test_a_test_notification_is_listed_in_chinese(administrator: Client, receiver: HttpReceiver) -> None:
    administrator.post("/new/notification/?kind=webhook", form(url=f"{receiver.url}/hook"))
    page = f"/notifications/{NotificationChannel.objects.get().pk}/"
    receiver.responses = [(200, "accepted")]
    administrator.post(f"{page}test/")
    administrator.cookies["weir_language"] = "zh-hans"
    for path in (page, "/notifications/deliveries/"):
        response = administrator.get(path)
        assert response.status_code == 200 and "已送达" in text(response)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("slack", {"url": "https://hooks.slack.com/services/x"}),
        ("email", {"recipients": "a@example.com\n b@example.com\n"}),
        ("pagerduty", {"secret": "key"}),
    ],
)
def test_each_kind_has_its_own_form(administrator: Client, kind: str, given: dict[str, str]) -> None:
    assert administrator.get(f"/new/notification/?kind={kind}").status_code == 200
    assert administrator.post(f"/new/notification/?kind={kind}", form()).status_code == 400
    assert (
        administrator.post(f"/new/notification/?kind={kind}", form(**given, alert_kinds=["drift"])).status_code == 302
    )
    row = NotificationChannel.objects.get()
    assert row.kind == kind and row.alert_kinds == ["drift"]
    assert row.recipients == (["a@example.com", "b@example.com"] if kind == "email" else [])
    assert administrator.get(f"/notifications/{row.pk}/edit/").status_code == 200


def test_an_error_is_beside_its_field(administrator: Client) -> None:
    page = administrator.post("/new/notification/", form(url="ftp://example.com"))
    assert page.status_code == 400 and "not an http or https address" in text(page)


def test_operators_and_viewers_see_channels_and_change_none(operator: Client, viewer: Client) -> None:
    row = notification_channels.create_channel(name="ops", kind="slack", url="https://a.example/x", actor="root")
    for client in (operator, viewer):
        assert client.get(f"/notifications/{row.pk}/").status_code == 200
        assert client.post("/new/notification/", form(url="https://b.example/", name="b")).status_code == 403
        for verb, body in (("edit", form()), ("delete", {"comment": "x"}), ("test", {})):
            assert client.post(f"/notifications/{row.pk}/{verb}/", body).status_code == 403
    assert NotificationChannel.objects.count() == 1 and not NotificationDelivery.objects.exists()


def test_an_unknown_channel_is_not_found(administrator: Client) -> None:
    for verb in ("", "edit/", "delete/"):
        assert administrator.get(f"/notifications/7/{verb}").status_code == 404
    assert administrator.post("/notifications/7/test/").status_code == 409


def test_a_channel_that_another_operator_changed_is_not_overwritten(administrator: Client) -> None:
    row = notification_channels.create_channel(name="ops", kind="slack", url="https://a.example/x", actor="root")
    page = f"/notifications/{row.pk}/edit/"
    assert '<input type="hidden" name="version" value="1"' in text(administrator.get(page))
    notification_channels.alter_channel(row.pk, {"severity_min": "at_risk"}, actor="bob")
    stale = administrator.post(page, form(name="on call", version="1"))
    assert stale.status_code == 400 and "was changed after this form was opened" in text(stale)
    row.refresh_from_db()
    assert (row.name, row.severity_min, row.version) == ("ops", "at_risk", 2)
    assert administrator.post(page, form(name="on call", version="2")).status_code == 302
