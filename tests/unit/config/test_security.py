"""Security settings: values that the parsers accept and reject."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.config.security import ACCESS_SETTINGS, SASL_SETTINGS, SSL_SETTINGS

SETTINGS = {s.name: s for s in (*SSL_SETTINGS, *SASL_SETTINGS, *ACCESS_SETTINGS)}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("ssl.keystore.key", r"-----BEGIN X-----\nabc\n-----END X-----", "-----BEGIN X-----\nabc\n-----END X-----\n"),
        ("ssl.enabled.protocols", "TLSv1.3", ("TLSv1.3",)),
        ("ssl.endpoint.identification.algorithm", "", ""),
        ("ssl.client.auth", "REQUIRED", "required"),
        ("sasl.enabled.mechanisms", "plain, scram-sha-256", ("PLAIN", "SCRAM-SHA-256")),
        ("super.users", "User:CN=a,O=b; User:bea;", ("User:CN=a,O=b", "User:bea")),
        ("connections.max.reauth.ms", "0", 0),
    ],
)
def test_a_valid_text_is_read(name: str, text: str, value: Any) -> None:
    assert SETTINGS[name].read(text) == value


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("ssl.keystore.key", "/etc/key.pem", "expected PEM text"),
        ("ssl.enabled.protocols", "", "expected TLSv1.2"),
        ("ssl.enabled.protocols", "TLSv1.1,TLSv1.2", "expected TLSv1.2"),
        ("ssl.client.auth", "yes", "expected one of none, requested, required"),
        ("sasl.enabled.mechanisms", "GSSAPI", "expected one or more of PLAIN"),
        ("super.users", "alice", "expected User:name"),
        ("connections.max.reauth.ms", "-1", "below the minimum 0"),
    ],
)
def test_an_invalid_text_is_rejected_with_what_is_expected(name: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        SETTINGS[name].read(text)


def test_keys_and_passwords_are_secret() -> None:
    secret = {name for name, s in SETTINGS.items() if s.secret}
    assert secret == {"ssl.keystore.key", "ssl.key.password", "sasl.jaas.config"}
