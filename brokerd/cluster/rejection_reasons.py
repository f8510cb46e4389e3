"""Reasons for which a broker rejects a request or a connection, or throttles a client."""

from __future__ import annotations

from enum import StrEnum


class RejectionReason(StrEnum):
    """The names are in the protocol between brokers and control plane, and in metrics."""

    AUTHENTICATION_FAILED = "authentication_failed"
    """Wrong credentials, or a SASL mechanism that the listener does not offer."""
    NOT_AUTHENTICATED = "not_authenticated"
    """A request before the authentication, or after its end."""
    CERTIFICATE_NOT_MAPPED = "certificate_not_mapped"
    """No rule of ssl.principal.mapping.rules matches the client's certificate."""
    TLS_FAILED = "tls_failed"
    UNSUPPORTED_VERSION = "unsupported_version"
    UNSUPPORTED_API = "unsupported_api"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    """Greater than socket.request.max.bytes."""
    UNAUTHORIZED = "unauthorized"
    """The response has an authorization error, for the request or for a part of it."""
    THROTTLED = "throttled"
    """The client waits because of a quota. Its request was served."""
    CONNECTION_LIMIT = "connection_limit"
    """A limit of connections, or of the rate of new connections."""
