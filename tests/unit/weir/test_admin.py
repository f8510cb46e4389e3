"""The admin shows every table to superusers, changes nothing, and never shows a credential."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client

from controlplane.models import AccessEntry, Change, NotificationChannel

pytestmark = pytest.mark.django_db
MODELS = [m._meta.model_name for m in apps.get_app_config("controlplane").get_models()]


@pytest.fixture(autouse=True)
def secret_key(settings: Any) -> None:
    """Without WEIR_SECRET_KEY the server answers no request."""
    settings.SECRET_KEY_GIVEN = True


def client_of(*, superuser: bool) -> Client:
    user = User.objects.create_user("alice", is_staff=True, is_superuser=superuser)
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize("model", MODELS)
def test_every_table_has_a_list(model: str) -> None:
    response = client_of(superuser=True).get(f"/admin/controlplane/{model}/")
    assert response.status_code == 200


def test_only_superusers_see_it() -> None:
    assert client_of(superuser=False).get("/admin/").status_code == 302
    assert Client().get("/admin/").status_code == 302


def test_a_row_is_shown_and_cannot_be_changed_added_or_deleted() -> None:
    row = Change.objects.create(actor="alice", verb="topic.create", object_kind="topic", object_name="flights")
    client, address = client_of(superuser=True), f"/admin/controlplane/change/{row.pk}/"
    assert b"flights" in client.get(f"{address}change/").content
    assert client.post(f"{address}change/", {"actor": "mallory"}).status_code == 403
    assert client.post(f"{address}delete/", {"post": "yes"}).status_code == 403
    assert client.get("/admin/controlplane/change/add/").status_code == 403
    assert Change.objects.get(pk=row.pk).actor == "alice"


def test_a_credential_is_never_shown() -> None:
    row = AccessEntry.objects.create(
        kind="scram", key="alice", value={"salt": "c2FsdA==", "stored_key": "bm90LXNob3du"}
    )
    client = client_of(superuser=True)
    for address in ("/admin/controlplane/accessentry/", f"/admin/controlplane/accessentry/{row.pk}/change/"):
        assert b"bm90LXNob3du" not in client.get(address).content


def test_the_credentials_of_a_notification_channel_are_never_shown() -> None:
    row = NotificationChannel.objects.create(
        name="ops", kind="webhook", url="https://a.example/bm90LXNob3du", secret="bm90LXNob3du", created_by="root"
    )
    client = client_of(superuser=True)
    for address in (
        "/admin/controlplane/notificationchannel/",
        f"/admin/controlplane/notificationchannel/{row.pk}/change/",
    ):
        assert b"bm90LXNob3du" not in client.get(address).content
