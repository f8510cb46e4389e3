"""Reasons for which a SASL login fails. Operators see them. A client gets the same response for each, so that it cannot find out which users exist."""

from __future__ import annotations

from enum import StrEnum


class SaslFailure(StrEnum):
    """The names are in the protocol between brokers and control plane."""

    UNKNOWN_USER = "unknown_user"
    """The user has no SCRAM credential for any mechanism."""
    WRONG_PASSWORD = "wrong_password"
    OTHER_MECHANISM = "other_mechanism"
    """The user has a SCRAM credential, but not for the mechanism of this login."""
    CREDENTIALS_OUTDATED = "credentials_outdated"
    """The broker does not follow the metadata log now, so a new user or password may not have arrived."""
    MECHANISM_NOT_ENABLED = "mechanism_not_enabled"
    REAUTHENTICATION_CHANGED = "reauthentication_changed"
    """A connection is authenticated again with another user or mechanism."""
    INVALID_TOKEN = "invalid_token"
    """OAUTHBEARER: the signature, the issuer, the audience or the time of the token does not fit. The broker's log has the details."""
    MALFORMED = "malformed"
