"""SCRAM (RFC 5802, RFC 7677), both sides: credentials, the server's half of the talk and the client's.

Laws: a password is turned into keys where it is met and is kept nowhere; comparisons take the same time whatever they compare; an unknown user is talked to
like any other until the end. Pure but for the nonces, which are given. Called by `sasl` (server), `client` (brokers among themselves), the control plane's services.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ALGORITHMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
CODES = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""Kafka's numbers for them in the APIs of credentials."""
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
"""Kafka's bounds; clients do this much work for each connection."""
MESSAGE_BYTES_MAX = 4096


class ScramError(Exception):
    """What the other end said is not SCRAM, or not true."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What is kept of a password. From it nobody can act as a client (RFC 5802 section 9)."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def to_json(self) -> dict[str, Any]:
        return {
            "salt": _b64(self.salt), "iterations": self.iterations,
            "stored_key": _b64(self.stored_key), "server_key": _b64(self.server_key),
        }  # fmt: skip

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Credential:
        salt, stored, server = (base64.b64decode(data[k]) for k in ("salt", "stored_key", "server_key"))
        return Credential(salt, int(data["iterations"]), stored, server)

    def __repr__(self) -> str:
        return f"Credential(iterations={self.iterations})"


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def salted(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(ALGORITHMS[mechanism], password.encode(), salt, iterations)


def credential(mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> Credential:
    name = ALGORITHMS[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return Credential(
        salt, iterations, hashlib.new(name, client_key).digest(), hmac.digest(salted_password, b"Server Key", name)
    )


def password_fits(mechanism: str, password: str, known: Credential) -> bool:
    """For PLAIN: does this password belong to the keys? Takes milliseconds: not for the loop."""
    made = credential(
        mechanism, salted(mechanism, password, known.salt, known.iterations), known.salt, known.iterations
    )
    return hmac.compare_digest(made.stored_key, known.stored_key)


def decoy(mechanism: str, user: str, secret: bytes) -> Credential:
    """What an unknown user is shown: the same each time, fitting no password."""
    salt = hmac.digest(secret, user.encode(), "sha256")[:16]
    size = hashlib.new(ALGORITHMS[mechanism]).digest_size
    return Credential(salt, ITERATIONS_MIN, bytes(size), hmac.digest(secret, salt, ALGORITHMS[mechanism]))


def _fields(message: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for part in message.split(","):
        key, equals, value = part.partition("=")
        if len(key) != 1 or not equals or key in out:
            raise ScramError(f"{part[:20]!r} is no attribute")
        out[key] = value
    return out


def _text(data: bytes | memoryview) -> str:
    if len(data) > MESSAGE_BYTES_MAX:
        raise ScramError(f"a message of {len(data)} bytes")
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as e:
        raise ScramError("a message that is not UTF-8") from e


class Server:
    """`first` then `last`, each with what the client said; `user` is known after `first`."""

    def __init__(self, mechanism: str, nonce: str) -> None:
        self._name, self._nonce = ALGORITHMS[mechanism], nonce
        self.user = ""
        self._known: Credential | None = None
        self._talk = self._combined = ""

    def first(self, data: bytes | memoryview) -> None:
        """Learn the user; then give `challenge` its credential."""
        message = _text(data)
        flag, _, rest = message.partition(",")
        authzid, _, bare = rest.partition(",")
        if flag not in ("n", "y"):
            raise ScramError("channel binding is not offered")
        fields = _fields(bare)
        if "m" in fields or not fields.get("n") or not fields.get("r"):
            raise ScramError("the first message lacks a user or a nonce")
        self.user = _name(fields["n"])
        if authzid.removeprefix("a=") not in ("", fields["n"]):
            raise ScramError("nobody may act for another user")
        self._combined = fields["r"] + self._nonce
        self._talk = bare

    def challenge(self, known: Credential) -> bytes:
        self._known = known
        reply = f"r={self._combined},s={_b64(known.salt)},i={known.iterations}"
        self._talk += "," + reply
        return reply.encode()

    def last(self, data: bytes | memoryview) -> bytes:
        """The last word to a client that has proved to know the password. Raises ScramError when it has not."""
        message = _text(data)
        assert self._known is not None
        fields = _fields(message)
        without, _, proof = message.rpartition(",p=")
        try:
            binding, shown = (
                base64.b64decode(fields.get("c", ""), validate=True),
                base64.b64decode(proof, validate=True),
            )
        except ValueError as e:
            raise ScramError("the last message cannot be read") from e
        # Kafka asks for no more than our part at the end, and librdkafka before 2.6 says its own part twice. The proof is over all of it.
        if binding[:2] not in (b"n,", b"y,") or not fields.get("r", "").endswith(self._nonce):
            raise ScramError("the last message does not belong to the first")
        talk = f"{self._talk},{without}".encode()
        signature = hmac.digest(self._known.stored_key, talk, self._name)
        if len(shown) != len(signature):
            raise ScramError("the proof has the wrong length")
        key = bytes(a ^ b for a, b in zip(shown, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._name, key).digest(), self._known.stored_key):
            raise ScramError("the proof is wrong")
        return b"v=" + base64.b64encode(hmac.digest(self._known.server_key, talk, self._name))


def _name(escaped: str) -> str:
    if "=" in escaped.replace("=2C", "").replace("=3D", ""):
        raise ScramError("the user's name cannot be read")
    return escaped.replace("=2C", ",").replace("=3D", "=")


class Client:
    """For brokers among themselves: `first`, `answer` to the challenge, `confirm` the server's last word."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str) -> None:
        self._mechanism, self._name, self._password, self._nonce = mechanism, ALGORITHMS[mechanism], password, nonce
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def answer(self, data: bytes | memoryview) -> bytes:
        challenge = _text(data)
        fields = _fields(challenge)
        if not fields.get("r", "").startswith(self._nonce) or not fields.get("i", "").isdigit():
            raise ScramError("the challenge does not belong to what was asked")
        iterations = int(fields["i"])
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ScramError(f"{iterations} iterations are not between {ITERATIONS_MIN} and {ITERATIONS_MAX}")
        mixed = salted(self._mechanism, self._password, base64.b64decode(fields.get("s", "")), iterations)
        last = f"c=biws,r={fields['r']}"
        talk = f"{self._bare},{challenge},{last}".encode()
        key = hmac.digest(mixed, b"Client Key", self._name)
        signature = hmac.digest(hashlib.new(self._name, key).digest(), talk, self._name)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        self._signature = hmac.digest(hmac.digest(mixed, b"Server Key", self._name), talk, self._name)
        return f"{last},p={_b64(proof)}".encode()

    def confirm(self, data: bytes | memoryview) -> None:
        """The other end knows the password's keys too: else it is not the one it says it is."""
        if not hmac.compare_digest(_text(data).encode(), b"v=" + base64.b64encode(self._signature)):
            raise ScramError("the other end has not proved who it is")
