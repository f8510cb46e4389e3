"""Issued tokens, validated as brokers validate them. Does not start a broker."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerd.config.security import SASL_SETTINGS
from brokerd.security.oauth import TokenError, Tokens
from tests.foreign.issuer import AUDIENCE, Issuer


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    made = Issuer(tmp_path, "se cret")
    yield made
    made.close()


def fetch_token(issuer: Issuer, path: str, login: str) -> str:
    headers = {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()}
    requested = urllib.request.Request(issuer.url + path, b"grant_type=client_credentials", headers)
    with urllib.request.urlopen(requested, timeout=60) as answer:
        return str(json.load(answer)["access_token"])


def test_brokers_accept_the_issued_token_and_reject_a_forged_one(issuer: Issuer) -> None:
    settings = {s.name: s.default for s in SASL_SETTINGS} | {
        "sasl.oauthbearer.jwks.endpoint.url": issuer.keys.as_uri(),
        "sasl.oauthbearer.expected.audience": (AUDIENCE,),
    }
    tokens = Tokens(settings)
    assert tokens.check(fetch_token(issuer, "/token", "alice:se cret"))[0] == "alice"
    with pytest.raises(TokenError):
        tokens.check(fetch_token(issuer, "/forged", "alice:se cret"))


def test_without_the_secret_no_token_is_issued(issuer: Issuer) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        fetch_token(issuer, "/token", "alice:guess")
