"""A token endpoint on loopback for OAuth 2 client credentials. Invariant: `/token` issues a valid token to a client with the secret.
`/forged` issues a token with the same claims that is signed with an untrusted key."""

from __future__ import annotations

import base64
import http.server
import json
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

AUDIENCE = "weir"
SECONDS = 6 * 3600
"""Longer than any run: a token issued early is still valid at the end."""


class Issuer:
    """`keys` is the JWKS file that brokers are given; `url` is where clients ask, with their name and `secret`."""

    def __init__(self, folder: Path, secret: str) -> None:
        self._key, self._strange = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
        jwk = {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key())), "kid": "one", "alg": "RS256"}
        self.keys = folder / "keys.json"
        self.keys.write_text(json.dumps({"keys": [jwk]}))
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                login = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
                user, _, reported = login.partition(":")
                known = unquote(reported) == secret and self.path in ("/token", "/forged")
                token = issuer.token(user, forged=self.path == "/forged")
                answer = {"access_token": token, "token_type": "Bearer", "expires_in": SECONDS}
                body = json.dumps(answer if known else {"error": "invalid_client"}).encode()
                self.send_response(200 if known else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def token(self, user: str, forged: bool = False) -> str:
        now = int(time.time())
        claims = {"sub": user, "aud": AUDIENCE, "iat": now, "exp": now + SECONDS}
        key = self._strange if forged else self._key
        return str(jwt.encode(claims, key, algorithm="RS256", headers={"kid": "one"}))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
