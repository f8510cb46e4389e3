"""Sends one notification: an HTTP POST for webhooks, Slack and PagerDuty, Django's mail backend for e-mail.

Invariants: every outcome is a value (`SendResult`), which contains no credential. An attempt is bounded in time and in bytes of the response. Does not
contain: retries (`controlplane.services.notifications`), the text (`controlplane.domain.notification_message`).
"""

from __future__ import annotations

import smtplib
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from django.conf import settings
from django.core.mail import EmailMessage, get_connection

from controlplane.domain import notification_message as texts
from controlplane.domain.notification import ChannelKind, DeliveryError, SendResult
from controlplane.domain.notification_message import Message

TIMEOUT_SECONDS = 5.0
"""Time limit of each step of an attempt (connect, each read). The worker has two threads, and moves need one of them."""

RESPONSE_SECONDS_MAX = 10.0
"""Time limit of the whole response. Otherwise a receiver that sends one byte at a time would keep a thread of the worker."""

RESPONSE_BYTES_MAX = 2_000
"""Maximum number of bytes of a response that are read and shown. Error messages of receivers are shorter."""

SCHEMES = ("http", "https")
PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"

REDIRECT_MIN, ERROR_MIN = 300, 400


@dataclass(frozen=True, slots=True)
class Receiver:
    """Address of the receiver of a channel, and its credentials."""

    kind: ChannelKind
    url: str = ""
    secret: str = ""
    recipients: Sequence[str] = ()


class _RedirectsRejected(HTTPRedirectHandler):
    """A redirect is an error. The body and its signature are for the receiver that an administrator entered. A response of that receiver must not choose
    another one: it could send the body to any host, or the worker to an address inside its network (server-side request forgery)."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def _opener() -> OpenerDirector:
    """Proxies of the environment (https_proxy) apply. Only http and https: urllib would also open file: and ftp: addresses."""
    return build_opener(_RedirectsRejected)


def send(receiver: Receiver, message: Message) -> SendResult:
    """Attempt once to send the message. Returns the outcome."""
    if receiver.kind is ChannelKind.EMAIL:
        return _send_email(receiver, message)
    if receiver.kind is ChannelKind.SLACK:
        return _post(receiver.url, texts.slack_body(message), {})
    if receiver.kind is ChannelKind.PAGERDUTY:
        return _post(receiver.url or PAGERDUTY_URL, texts.pagerduty_body(message, receiver.secret), {})
    body = texts.webhook_body(message)
    headers = {"X-Weir-Event": message.event.value, "X-Weir-Delivery": message.id}
    if receiver.secret:
        headers["X-Weir-Signature-256"] = texts.signature(receiver.secret, body)
    return _post(receiver.url, body, headers)


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> SendResult:
    if not is_web_address(url):
        return SendResult(DeliveryError.INVALID_URL, response="The channel has no http or https address.")
    request = Request(  # noqa: S310 - checked in the line above.
        url, data=body, method="POST", headers={"Content-Type": "application/json", "User-Agent": "Weir", **headers}
    )
    try:
        with _opener().open(request, timeout=TIMEOUT_SECONDS) as response:
            return SendResult(DeliveryError.NONE, response.status, _read_response(response))
    except HTTPError as error:
        with error:
            if REDIRECT_MIN <= error.code < ERROR_MIN:
                text = "The receiver redirects to another address. Enter that address in the channel."
                return SendResult(DeliveryError.REDIRECT, error.code, text)
            return SendResult(DeliveryError.STATUS, error.code, _read_response(error))
    except (OSError, HTTPException, ValueError) as error:
        return _failure(error)


def is_web_address(url: str) -> bool:
    """Return whether this is an http or https address with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in SCHEMES and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _read_response(response: HTTPResponse | HTTPError) -> str:
    """Read the first bytes of a response. An incomplete response is not a failure, because its status has arrived already."""
    read = bytearray()
    end = time.monotonic() + RESPONSE_SECONDS_MAX
    # `HTTPError` has no `read1`, and its `read` waits for the whole response. The response that it wraps has it.
    source = cast("HTTPResponse", response.fp) if isinstance(response, HTTPError) else response
    try:
        while len(read) < RESPONSE_BYTES_MAX and time.monotonic() < end:
            part = source.read1(RESPONSE_BYTES_MAX - len(read))
            if not part:
                break
            read += part
    except (OSError, HTTPException):
        pass
    return bytes(read[:RESPONSE_BYTES_MAX]).decode(errors="replace")


def _failure(error: Exception) -> SendResult:
    """The reason of a failure without the address, which may be a credential."""
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError):
        return SendResult(DeliveryError.TIMEOUT, response=f"No response within {TIMEOUT_SECONDS:.0f} s.")
    if isinstance(reason, ssl.SSLError):
        return SendResult(DeliveryError.TLS, response=f"TLS: {getattr(reason, 'verify_message', '') or reason.reason}")
    text = getattr(reason, "strerror", None) or type(reason).__name__
    return SendResult(DeliveryError.UNREACHABLE, response=f"No connection: {text}")


def _send_email(receiver: Receiver, message: Message) -> SendResult:
    if not settings.WEIR.smtp_url:
        return SendResult(DeliveryError.NOT_CONFIGURED, response="No mail server is configured (WEIR_SMTP_URL).")
    # The same reference joins the mails of one incident to a thread.
    headers = {"X-Weir-Delivery": message.id, "References": f"<{message.key}@weir>"}
    try:
        mail = EmailMessage(
            texts.email_subject(message),
            texts.email_text(message),
            settings.DEFAULT_FROM_EMAIL,
            list(receiver.recipients),
            connection=get_connection(),
            headers=headers,
        )
        mail.send()
    except smtplib.SMTPRecipientsRefused as error:
        code = max(code for code, _ in error.recipients.values())
        return SendResult(DeliveryError.SMTP, code, "The mail server rejected every recipient.")
    except smtplib.SMTPResponseException as error:
        text = error.smtp_error.decode(errors="replace") if isinstance(error.smtp_error, bytes) else error.smtp_error
        return SendResult(DeliveryError.SMTP, error.smtp_code, str(text)[:RESPONSE_BYTES_MAX])
    except smtplib.SMTPException as error:
        return SendResult(DeliveryError.SMTP, response=type(error).__name__)
    except (OSError, ValueError) as error:
        return _failure(error)
    return SendResult(DeliveryError.NONE, response="The mail server accepted the message.")
