"""Responses of a provider that cannot be used. The login itself is tested with a whole provider (console/views/test_oidc.py)."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.test import RequestFactory

from controlplane.clients import oidc
from controlplane.domain.external_login import LoginRejected, LoginRejection


class Discovery:
    """A server that answers each request with `status` and `body`."""

    def __init__(self) -> None:
        self.status, self.body = 200, b""
        response = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(response.status)
                self.send_header("Content-Length", str(len(response.body)))
                self.end_headers()
                self.wfile.write(response.body)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def metadata(self, **more: Any) -> None:
        endpoints = {name: f"{self.url}/{name}" for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
        self.body = json.dumps({"issuer": self.url, **endpoints, **more}).encode()


@pytest.fixture
def discovery(settings: Any) -> Iterator[Discovery]:
    running = Discovery()
    settings.WEIR = replace(settings.WEIR, oidc_issuer=running.url)
    oidc._client.cache_clear()
    yield running
    running.server.shutdown()
    running.server.server_close()


def rejection() -> LoginRejected:
    request: Any = RequestFactory().get("/")
    request.session = {}
    with pytest.raises(LoginRejected) as rejection:
        oidc.redirect_to_provider(request, "http://console/", "state", silent=False)
    return rejection.value


@pytest.mark.parametrize(
    ("status", "body", "cause"),
    [
        (404, b"", LoginRejection.BAD_RESPONSE),
        (500, b"", LoginRejection.UNREACHABLE),
        (200, b"<html>", LoginRejection.BAD_RESPONSE),
        (200, b'{"issuer": "https://another"}', LoginRejection.BAD_RESPONSE),
    ],
)
def test_a_wrong_response_is_no_missing_one(
    discovery: Discovery, status: int, body: bytes, cause: LoginRejection
) -> None:
    discovery.status, discovery.body = status, body
    assert rejection().rejection == cause
    discovery.status = 200
    discovery.metadata()
    request: Any = RequestFactory().get("/")
    request.session = {}
    assert oidc.redirect_to_provider(request, "http://console/", "state", silent=True).status_code == 302


@pytest.mark.parametrize(
    ("known", "used"), [(["none", "HS256", "RS256", "ES256"], ["RS256", "ES256"]), (["none"], []), (None, ["RS256"])]
)
def test_only_asymmetric_algorithms_are_accepted(
    discovery: Discovery, known: list[str] | None, used: list[str]
) -> None:
    discovery.metadata(**({} if known is None else {"id_token_signing_alg_values_supported": known}))
    assert oidc._provider().load_server_metadata()["id_token_signing_alg_values_supported"] == used


def test_a_client_without_a_secret_authenticates_by_the_verifier_alone(discovery: Discovery, settings: Any) -> None:
    assert oidc._provider().client_kwargs["token_endpoint_auth_method"] == "none"
    settings.WEIR = replace(settings.WEIR, oidc_client_secret="of the console")
    assert "token_endpoint_auth_method" not in oidc._provider().client_kwargs
