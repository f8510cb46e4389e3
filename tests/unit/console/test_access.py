"""Login, the permission to read records, and the end of a session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth import get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client
from rest_framework.authtoken.models import Token

from console import session_checks, sockets
from controlplane.selectors.sessions import signed_in

pytestmark = pytest.mark.django_db


RIGHT, WRONG = "the right password", "a wrong password"


def user(name: str, **more: Any) -> Any:
    return get_user_model().objects.create_user(name, password=RIGHT, **more)


def client_of(person: Any) -> Client:
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture(autouse=True)
def quick_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


# -- the API and the key ----------------------------------------------------------------------------------------------------


def test_the_schema_requires_a_login(client: Client) -> None:
    assert client.get("/api/v1/schema").status_code in (401, 403)
    token = Token.objects.create(user=user("alice")).key
    assert client.get("/api/v1/schema", headers={"Authorization": f"Token {token}"}).status_code == 200


# -- the end of a session ---------------------------------------------------------------------------------------------------


def session_of(person: Any) -> str:
    key = client_of(person).session.session_key
    assert key is not None
    return key


def test_a_session_ends_with_sign_out_password_and_deactivation() -> None:
    person = user("alice")
    assert not signed_in(None) and not signed_in("invented")
    out = session_of(person)
    assert signed_in(out)
    SessionStore(out).delete()
    assert not signed_in(out)
    changed, off = session_of(person), session_of(person)
    person.set_password("another password")
    person.save()
    assert not signed_in(changed) and not signed_in(off)
    off = session_of(person)
    assert signed_in(off)
    get_user_model().objects.filter(pk=person.pk).update(is_active=False)
    assert not signed_in(off)


def test_a_live_socket_closes_when_its_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "HEARTBEAT_SECONDS", 0.05)
    known = {"session": True}
    monkeypatch.setattr(session_checks, "signed_in", lambda key: known[key])

    class Session:
        session_key = "session"

    class FakeUser:
        is_authenticated = True

    async def main() -> None:
        scope = {"type": "websocket", "path": "/ws/live", "user": FakeUser(), "session": Session()}
        socket = ApplicationCommunicator(sockets.LiveSocket.as_asgi(), scope)
        await socket.send_input({"type": "websocket.connect"})
        assert (await socket.receive_output(30))["type"] == "websocket.accept"
        await asyncio.sleep(0.3)
        assert socket.output_queue.empty()
        known["session"] = False
        closed = await socket.receive_output(30)
        assert (closed["type"], closed["code"]) == ("websocket.close", sockets.SIGNED_OUT)

    asyncio.run(main())
