"""OAUTHBEARER (RFC 7628): authentication with signed JWTs. Settings of KIP-768, keys from a JWKS file.

Only asymmetric signatures are accepted. A token must have an expiry. Keys are reloaded when the file changes. PyJWT verifies signatures and
claims (docs/decisions/021-scram-keys-as-only-sasl-credentials.md).
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

log = logging.getLogger(__name__)

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
TOKEN_BYTES_MAX = 64 * 1024


class TokenError(Exception):
    """A token is rejected. The message gives the reason and contains no part of the token."""


def bearer_token(data: bytes | memoryview) -> str:
    """The token of the client's first message: `n,a=user,`, then key=value pairs, each terminated by byte 1. Raises TokenError."""
    if len(data) > TOKEN_BYTES_MAX:
        raise TokenError("the token is too long")
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError as e:
        raise TokenError("the message is not UTF-8") from e
    header, _, rest = text.partition("\x01")
    if not header.startswith("n,"):
        raise TokenError("the message is not OAUTHBEARER")
    for pair in rest.split("\x01"):
        if pair.lower().startswith("auth=bearer "):
            return pair[len("auth=bearer ") :].strip()
    raise TokenError("the message has no token")


class Tokens:
    """Verifies tokens. `settings` are `sasl.oauthbearer.*`. `check` returns the user and the expiry of the token (Unix time in ms)."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        url = urlparse(settings["sasl.oauthbearer.jwks.endpoint.url"] or "")
        if url.scheme != "file" or not url.path:
            raise ValueError(
                "OAUTHBEARER requires sasl.oauthbearer.jwks.endpoint.url=file:///..., a JWKS file; "
                "http URLs are not supported"
            )
        try:
            self._jwt: Any = importlib.import_module("jwt")
        except ImportError as e:
            raise ValueError(
                "OAUTHBEARER requires the package PyJWT with cryptography: pip install 'weir[oauth]'"
            ) from e
        self._path, self._settings = Path(url.path), settings
        self._seen: object = None
        self._keys: dict[str | None, Any] = {}
        self._read_keys()

    def _read_keys(self) -> None:
        try:
            s = self._path.stat()
            if (s.st_mtime_ns, s.st_size, s.st_ino) == self._seen:
                return
            self._seen = (s.st_mtime_ns, s.st_size, s.st_ino)
            keys = self._jwt.PyJWKSet.from_dict(json.loads(self._path.read_text())).keys
            self._keys = {k.key_id: k for k in keys if k.algorithm_name in ALGORITHMS}
        except (OSError, ValueError, self._jwt.PyJWTError) as e:
            log.error("JWKS reload failed, the old keys stay in use: path=%s error=%s", self._path, e)

    def check(self, token: str) -> tuple[str, int]:
        self._read_keys()
        jwt, settings = self._jwt, self._settings
        audience = list(settings["sasl.oauthbearer.expected.audience"]) or None
        try:
            kid = jwt.get_unverified_header(token).get("kid")
            key = self._keys.get(kid) if kid is not None or len(self._keys) != 1 else next(iter(self._keys.values()))
            if key is None:
                raise TokenError("the token is signed with an unknown key")
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm_name],
                audience=audience,
                issuer=settings["sasl.oauthbearer.expected.issuer"],
                leeway=settings["sasl.oauthbearer.clock.skew.seconds"],
                options={"require": ["exp"], "verify_aud": audience is not None},
            )
        except jwt.PyJWTError as e:
            raise TokenError(f"invalid token: {type(e).__name__}") from e
        user = claims.get(settings["sasl.oauthbearer.sub.claim.name"])
        if not isinstance(user, str) or not user.strip():
            raise TokenError("the token has no user name")
        return user, int(claims["exp"]) * 1_000
