"""OAUTHBEARER: the client's first message, signatures and claims of a token, and keys that change."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from brokerd.config.security import SASL_SETTINGS
from brokerd.security.oauth import TOKEN_BYTES_MAX, TokenError, Tokens, bearer_token


class Keys:
    """A JWKS file with one key. `token` signs with it, `other` with a key that is not in the file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "keys.json"
        self.rotate()

    def rotate(self, name: str = "one") -> None:
        self.name, self.key, self.strange = name, *(ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        jwk: dict[str, Any] = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key()))
        self.path.write_text(json.dumps({"keys": [{**jwk, "kid": name, "alg": "ES256"}]}))

    def token(self, *, strange: bool = False, kid: str | None = None, **claims: Any) -> str:
        body = {"sub": "alice", "exp": int(time.time()) + 600, "aud": "weir", **claims}
        body = {k: v for k, v in body.items() if v is not None}
        return jwt.encode(body, self.strange if strange else self.key, "ES256", {"kid": kid or self.name})

    def tokens(self, **settings: Any) -> Tokens:
        given = {s.name: s.default for s in SASL_SETTINGS} | {
            "sasl.oauthbearer.jwks.endpoint.url": self.path.as_uri(),
            "sasl.oauthbearer.expected.audience": ("weir",),
        }
        return Tokens({**given, **{f"sasl.oauthbearer.{k.replace('_', '.')}": v for k, v in settings.items()}})


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


def test_a_valid_token_gives_the_user_and_the_expiry(keys: Keys) -> None:
    exp = int(time.time()) + 50
    assert keys.tokens().check(keys.token(exp=exp)) == ("alice", exp * 1_000)
    assert keys.tokens(sub_claim_name="email").check(keys.token(email="a@b"))[0] == "a@b"


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1},
        {"exp": None},
        {"aud": "other"},
        {"aud": None},
        {"sub": " "},
        {"sub": None},
        {"strange": True},
        {"kid": "two"},
    ],
)
def test_an_invalid_token_is_rejected_without_showing_it(keys: Keys, claims: dict[str, Any]) -> None:
    token = keys.token(**claims)
    with pytest.raises(TokenError) as e:
        keys.tokens().check(token)
    assert token not in str(e.value)


def test_the_issuer_is_checked_if_one_is_expected(keys: Keys) -> None:
    with pytest.raises(TokenError):
        keys.tokens(expected_issuer="idp").check(keys.token(iss="other"))
    assert keys.tokens(expected_issuer="idp").check(keys.token(iss="idp"))


def test_an_unsigned_token_is_rejected(keys: Keys) -> None:
    token = jwt.encode({"sub": "root", "exp": int(time.time()) + 600, "aud": "weir"}, None, "none", {"kid": "one"})
    with pytest.raises(TokenError):
        keys.tokens().check(token)


def test_new_keys_are_used_without_a_restart_and_an_invalid_file_is_ignored(
    keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    tokens, old = keys.tokens(), keys.token()
    keys.rotate("two")
    with pytest.raises(TokenError):
        tokens.check(old)
    new = keys.token()
    assert tokens.check(new)
    keys.path.write_text("{")
    os.utime(keys.path, (1, 1))
    assert tokens.check(new) and "the old keys stay in use" in caplog.text


@pytest.mark.parametrize("url", [None, "https://idp/keys", "file://"])
def test_only_a_file_of_keys_is_supported(keys: Keys, url: str | None) -> None:
    with pytest.raises(ValueError, match="http URLs are not supported"):
        keys.tokens(jwks_endpoint_url=url)


def test_the_token_is_read_from_the_first_message() -> None:
    assert bearer_token(b"n,a=user,\x01host=h\x01auth=Bearer abc \x01\x01") == "abc"
    for message in (b"y,,\x01auth=Bearer abc\x01", b"n,,\x01host=h\x01", b"\xff", b"n" * (TOKEN_BYTES_MAX + 1)):
        with pytest.raises(TokenError):
            bearer_token(message)
