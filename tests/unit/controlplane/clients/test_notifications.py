"""One attempt against real receivers on loopback: every outcome is a value without a credential."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings as django_settings

from controlplane.clients import notifications
from controlplane.clients.notifications import Receiver, is_web_address, send
from controlplane.domain.notification import ChannelKind, DeliveryError
from controlplane.domain.notification_message import sample_message
from tests.cluster.local import free_port
from tests.unit.controlplane.receivers import HttpReceiver, http_receiver, smtp_receiver

MESSAGE = sample_message("d1", "k1", "prod", "2026-11-23T10:00:00+00:00", "https://weir.example/")


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with http_receiver() as found:
        yield found


def post(url: str, secret: str = "") -> Any:
    return send(Receiver(ChannelKind.WEBHOOK, url, secret), MESSAGE)


def test_the_response_of_the_receiver_is_kept_and_bounded(receiver: HttpReceiver) -> None:
    receiver.responses = [(200, "x" * 100_000), (400, "wrong\0key" * 1000)]
    done = post(receiver.url, "secret")
    assert (done.error, done.status, done.response) == (DeliveryError.NONE, 200, "x" * notifications.RESPONSE_BYTES_MAX)
    rejected = post(receiver.url)
    assert (rejected.error, rejected.status) == (DeliveryError.STATUS, 400)
    assert len(rejected.response) == notifications.RESPONSE_BYTES_MAX and rejected.response.startswith("wrong")
    assert ["X-Weir-Signature-256" in p.headers for p in receiver.posts] == [True, False]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(receiver: HttpReceiver, status: int) -> None:
    with http_receiver() as other:
        receiver.responses, receiver.headers = [(status, "")], {"Location": other.url}
        done = post(receiver.url)
        assert (done.error, done.status, other.posts) == (DeliveryError.REDIRECT, status, [])


def test_a_receiver_that_does_not_respond_is_given_up(receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "TIMEOUT_SECONDS", 0.2)
    receiver.gate.clear()
    assert post(receiver.url).error is DeliveryError.TIMEOUT


@pytest.mark.parametrize(("status", "error"), [("200 OK", DeliveryError.NONE), ("500 Error", DeliveryError.STATUS)])
def test_a_slow_response_is_bounded_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, status: str, error: DeliveryError
) -> None:
    monkeypatch.setattr(notifications, "RESPONSE_SECONDS_MAX", 0.3)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 1500\r\n\r\n".encode())
                try:
                    while not ended.wait(0.05):
                        connection.sendall(b".")
                except OSError:
                    pass

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        done = post(f"http://127.0.0.1:{server.getsockname()[1]}/")
        ended.set()
        thread.join(30)
    assert done.error is error and 0 < len(done.response) < 1500


def test_a_failure_names_no_address() -> None:
    done = post(f"http://127.0.0.1:{free_port()}/t0ken")
    assert (
        done.error is DeliveryError.UNREACHABLE and "refused" in done.response.lower() and "t0ken" not in done.response
    )


def test_a_receiver_without_tls_fails_https(receiver: HttpReceiver) -> None:
    assert post(receiver.url.replace("http:", "https:")).error is DeliveryError.TLS


def test_a_response_that_is_not_http_is_a_failure() -> None:
    with smtp_receiver() as server:
        done = post(f"http://127.0.0.1:{server.port}/")
    assert done.error is DeliveryError.UNREACHABLE


@pytest.mark.parametrize(
    "url", ["", "file:///etc/passwd", "ftp://example.com/", "http://", "https://a:b/", "http://a:0/"]
)
def test_only_http_and_https_are_addresses(url: str) -> None:
    assert not is_web_address(url) and post(url).error is DeliveryError.INVALID_URL


def test_pagerduty_has_a_default_address(receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "PAGERDUTY_URL", f"{receiver.url}/v2/enqueue")
    assert send(Receiver(ChannelKind.PAGERDUTY, secret="R0"), MESSAGE).error is DeliveryError.NONE
    assert receiver.posts[0].path == "/v2/enqueue"


def test_mail_needs_a_configured_server() -> None:
    done = send(Receiver(ChannelKind.EMAIL, recipients=["a@example.com"]), MESSAGE)
    assert done.error is DeliveryError.NOT_CONFIGURED and "WEIR_SMTP_URL" in done.response


def test_rejected_and_unreachable_mail_servers_are_distinguished(settings: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST = "127.0.0.1"
    receiver = Receiver(ChannelKind.EMAIL, recipients=["a@example.com"])
    with smtp_receiver() as server:
        settings.WEIR = replace(django_settings.WEIR, smtp_url="smtp://127.0.0.1")
        settings.EMAIL_PORT = server.port
        assert send(receiver, MESSAGE).error is DeliveryError.NONE and len(server.mails) == 1
        server.rejection = "451 later"
        done = send(receiver, MESSAGE)
        assert (done.error, done.status) == (DeliveryError.SMTP, 451) and not done.is_permanent
    assert send(receiver, MESSAGE).error is DeliveryError.UNREACHABLE
