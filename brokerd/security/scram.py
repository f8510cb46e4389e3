"""SCRAM (RFC 5802, RFC 7677): credentials, server and client side of the exchange.

A password is converted to keys immediately and never stored. Comparisons take constant time. The exchange with an unknown user is the same as
with any other user until the end. Pure functions; nonces are arguments.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass

from brokerd.cluster.access_values import AccessValue, invalid, number_of, text_of

ALGORITHMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
CODES = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""Kafka's numbers of the mechanisms in the SCRAM credential APIs."""
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
"""Kafka's bounds. Clients compute this many iterations per connection."""
MESSAGE_BYTES_MAX = 4096


class ScramError(Exception):
    """A malformed SCRAM message or a failed proof."""


class WrongProof(ScramError):
    """The client does not know the password."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The stored keys of a password. They are not sufficient to authenticate as the client (RFC 5802 section 9)."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def to_json(self) -> dict[str, str | int]:
        return {
            "salt": _b64(self.salt),
            "iterations": self.iterations,
            "stored_key": _b64(self.stored_key),
            "server_key": _b64(self.server_key),
        }

    @staticmethod
    def from_json(data: AccessValue) -> Credential:
        """Raises InvalidAccessValue, which has no key in its message."""
        salt, stored, server = (_key_bytes(data, field) for field in ("salt", "stored_key", "server_key"))
        return Credential(salt, int(number_of(data, "iterations")), stored, server)

    def __repr__(self) -> str:
        return f"Credential(iterations={self.iterations})"


def _key_bytes(data: AccessValue, field: str) -> bytes:
    text = text_of(data, field, is_secret=True)
    try:
        return base64.b64decode(text)
    except ValueError:
        raise invalid(field, text, "base64", is_secret=True) from None


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def salt_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(ALGORITHMS[mechanism], password.encode(), salt, iterations)


def credential(mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> Credential:
    name = ALGORITHMS[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return Credential(
        salt, iterations, hashlib.new(name, client_key).digest(), hmac.digest(salted_password, b"Server Key", name)
    )


def password_fits(mechanism: str, password: str, stored: Credential) -> bool:
    """Return whether the password matches the keys, for SASL PLAIN. Takes milliseconds; do not call it on the event loop."""
    made = credential(
        mechanism, salt_password(mechanism, password, stored.salt, stored.iterations), stored.salt, stored.iterations
    )
    return hmac.compare_digest(made.stored_key, stored.stored_key)


def decoy_credential(mechanism: str, user: str, secret: bytes) -> Credential:
    """The credential of an unknown user: always the same, matches no password."""
    salt = hmac.digest(secret, user.encode(), "sha256")[:16]
    size = hashlib.new(ALGORITHMS[mechanism]).digest_size
    return Credential(salt, ITERATIONS_MIN, bytes(size), hmac.digest(secret, salt, ALGORITHMS[mechanism]))


def _fields(message: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for part in message.split(","):
        key, equals, value = part.partition("=")
        if len(key) != 1 or not equals or key in out:
            raise ScramError(f"invalid attribute {part[:20]!r}")
        out[key] = value
    return out


def _text(data: bytes | memoryview) -> str:
    if len(data) > MESSAGE_BYTES_MAX:
        raise ScramError(f"message too long: {len(data)} bytes")
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as e:
        raise ScramError("the message is not UTF-8") from e


class Server:
    """Server side. Call `first`, `challenge`, `last` with the client's messages. `user` is set by `first`."""

    def __init__(self, mechanism: str, nonce: str) -> None:
        self._name, self._nonce = ALGORITHMS[mechanism], nonce
        self.user = ""
        self._known: Credential | None = None
        self._messages = self._combined = ""

    def parse_first(self, data: bytes | memoryview) -> None:
        """Parse the first message. The caller passes the credential of `user` to `challenge`."""
        message = _text(data)
        flag, _, rest = message.partition(",")
        authzid, _, bare = rest.partition(",")
        if flag not in ("n", "y"):
            raise ScramError("channel binding is not supported")
        fields = _fields(bare)
        if "m" in fields or not fields.get("n") or not fields.get("r"):
            raise ScramError("the first message has no user or no nonce")
        self.user = _name(fields["n"])
        if authzid.removeprefix("a=") not in ("", fields["n"]):
            raise ScramError("an authorization identity is not supported")
        self._combined = fields["r"] + self._nonce
        self._messages = bare

    def challenge(self, stored: Credential) -> bytes:
        self._known = stored
        reply = f"r={self._combined},s={_b64(stored.salt)},i={stored.iterations}"
        self._messages += "," + reply
        return reply.encode()

    def final_message(self, data: bytes | memoryview) -> bytes:
        """Verify the client's proof. Returns the final message. Raises ScramError if the proof is wrong."""
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
            raise ScramError("malformed final message") from e
        # Kafka checks only that the nonce ends with the server's part; librdkafka before 2.6 repeats its own part. The proof covers all of it.
        if binding[:2] not in (b"n,", b"y,") or not fields.get("r", "").endswith(self._nonce):
            raise ScramError("the nonce of the final message does not match")
        auth_message = f"{self._messages},{without}".encode()
        signature = hmac.digest(self._known.stored_key, auth_message, self._name)
        if len(shown) != len(signature):
            raise ScramError("the proof has the wrong length")
        key = bytes(a ^ b for a, b in zip(shown, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._name, key).digest(), self._known.stored_key):
            raise WrongProof("the client proof is wrong: wrong password")
        return b"v=" + base64.b64encode(hmac.digest(self._known.server_key, auth_message, self._name))


def _name(escaped: str) -> str:
    if "=" in escaped.replace("=2C", "").replace("=3D", ""):
        raise ScramError("malformed user name")
    return escaped.replace("=2C", ",").replace("=3D", "=")


class Client:
    """Client side, for connections between brokers: `first_message`, `final_message` after the challenge, `confirm` the server's final message."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str) -> None:
        self._mechanism, self._name, self._password, self._nonce = mechanism, ALGORITHMS[mechanism], password, nonce
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._signature = b""

    def first_message(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final_message(self, data: bytes | memoryview) -> bytes:
        challenge = _text(data)
        fields = _fields(challenge)
        if not fields.get("r", "").startswith(self._nonce) or not fields.get("i", "").isdigit():
            raise ScramError("the nonce of the challenge does not match")
        iterations = int(fields["i"])
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ScramError(f"{iterations} iterations are not between {ITERATIONS_MIN} and {ITERATIONS_MAX}")
        mixed = salt_password(self._mechanism, self._password, base64.b64decode(fields.get("s", "")), iterations)
        last = f"c=biws,r={fields['r']}"
        auth_message = f"{self._bare},{challenge},{last}".encode()
        key = hmac.digest(mixed, b"Client Key", self._name)
        signature = hmac.digest(hashlib.new(self._name, key).digest(), auth_message, self._name)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        self._signature = hmac.digest(hmac.digest(mixed, b"Server Key", self._name), auth_message, self._name)
        return f"{last},p={_b64(proof)}".encode()

    def confirm(self, data: bytes | memoryview) -> None:
        """Verify that the server knows the keys of the password. Raises ScramError."""
        if not hmac.compare_digest(_text(data).encode(), b"v=" + base64.b64encode(self._signature)):
            raise ScramError("the server proof is wrong: the server does not know the password")
