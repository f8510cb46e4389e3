"""A provider of OpenID Connect on loopback, in a thread: oidc-provider-mock, which accepts each client and any user.

`requests`: (path, form) of the requests to the provider, so that a test can compare what the console sent."""

from __future__ import annotations

import io
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from werkzeug.serving import WSGIRequestHandler, make_server

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it uses a deprecated module of Authlib
    import oidc_provider_mock


class _QuietRequestHandler(WSGIRequestHandler):
    def log(self, *args: Any, **kwargs: Any) -> None:
        pass


class Provider:
    """`url` is the issuer."""

    def __init__(self, *, token_lifetime: timedelta = timedelta(hours=1)) -> None:
        self._app: Any = oidc_provider_mock.app(access_token_max_age=token_lifetime)
        self.requests: list[tuple[str, dict[str, list[str]]]] = []
        self._server = make_server(
            "127.0.0.1", 0, self._record_and_respond, threaded=True, request_handler=_QuietRequestHandler
        )
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def set_user(self, subject: str, **claims: Any) -> None:
        httpx.put(f"{self.url}/users/{subject}", json=claims, trust_env=False).raise_for_status()

    def log_in(self, address: str, subject: str) -> str:
        """The redirect back to the console that a browser gets when this user confirms the login at `address`."""
        response = httpx.post(address, data={"sub": subject}, trust_env=False)
        assert response.status_code == 302, response.text
        return response.headers["Location"]

    def _record_and_respond(self, environ: dict[str, Any], start_response: Any) -> Any:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        form = parse_qs(body.decode("utf-8", "replace")) | parse_qs(environ.get("QUERY_STRING", ""))
        self.requests.append((environ["PATH_INFO"], form))
        return self._app(environ, start_response)


@contextmanager
def provider(**options: Any) -> Iterator[Provider]:
    running = Provider(**options)
    try:
        yield running
    finally:
        running.close()


def query_of(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def with_query(address: str, **changed: str) -> str:
    for name, value in changed.items():
        address = re.sub(rf"([?&]{name}=)[^&]*", rf"\g<1>{value}", address)
    return address
