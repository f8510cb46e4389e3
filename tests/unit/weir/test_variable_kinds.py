"""Types of environment variables: those of logins. All others: test_variables.py."""

from __future__ import annotations

import pytest

from weir.variable_kinds import GROUP_MAP, GROUPS, GROUPS_MAX, provider_url, scopes


def test_a_map_of_groups() -> None:
    assert GROUP_MAP.parse("payments, /org/a=orders ,b = c") == (
        ("payments", "payments"),
        ("/org/a", "orders"),
        ("b", "c"),
    )
    assert GROUP_MAP.parse("cn=x=y") == (("cn=x", "y"),) and GROUP_MAP.parse("") == ()
    for text in ("a=", "=b", "a=" + "b" * 151):
        with pytest.raises(ValueError):
            GROUP_MAP.parse(text)


def test_names_of_groups_are_limited() -> None:
    assert GROUPS.parse("on call, *,") == ("on call", "*")
    with pytest.raises(ValueError):
        GROUPS.parse(",".join(f"g{n}" for n in range(GROUPS_MAX + 1)))


def test_a_provider_elsewhere_needs_https() -> None:
    for text in ("", "https://id.example/realms/a", "http://localhost:9000", "http://[::1]:9000"):
        assert provider_url(text) == text
    for text in ("http://id.example", "https://", "id.example", "ftp://id.example", "http://localhost.example"):
        with pytest.raises(ValueError):
            provider_url(text)


def test_scopes_have_openid() -> None:
    assert scopes("openid groups") == "openid groups"
    with pytest.raises(ValueError):
        scopes("profile openid2")
