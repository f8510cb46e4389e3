"""Types of environment variables: those of logins. All others: test_variables.py."""

from __future__ import annotations

import pytest

from weir.variable_kinds import (
    CONNECT_CLUSTERS,
    CONNECT_CLUSTERS_MAX,
    GROUP_MAP,
    GROUPS,
    GROUPS_MAX,
    directory_url,
    filter_with,
    provider_url,
    scopes,
)


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


def test_a_directory_elsewhere_needs_tls() -> None:
    for text in ("", "ldaps://ldap.example", "ldap+starttls://ldap.example:1389", "ldap://127.0.0.1:389"):
        assert directory_url(text) == text
    for text in ("ldap://ldap.example", "ldaps://", "https://ldap.example"):
        with pytest.raises(ValueError):
            directory_url(text)


def test_a_filter_has_brackets_and_one_of_its_placeholders() -> None:
    kind = filter_with("dn", "user")
    for text in ("(member={dn})", "(&(a=b)(memberUid={user}))"):
        assert kind.parse(text) == text
    for text in ("(member=x)", "member={dn}", "(member={name})"):
        with pytest.raises(ValueError):
            kind.parse(text)


def test_clusters_of_connect_have_a_name_and_addresses_of_workers() -> None:
    parse = CONNECT_CLUSTERS.parse
    assert parse("") == () and parse("etl=http://a:8083") == (("etl", ("http://a:8083",)),)
    assert parse(" etl=https://u:p%2C@a:1 https://b:1/x , edge.2=http://c:1,") == (
        ("etl", ("https://u:p%2C@a:1", "https://b:1/x")),
        ("edge.2", ("http://c:1",)),
    )
    many = ",".join(f"c{n}=http://a:1" for n in range(CONNECT_CLUSTERS_MAX + 1))
    for text in (
        "http://a:1",
        "a=",
        "=http://a:1",
        "a=ftp://a:1",
        "a=http://",
        "a b=http://a:1",
        "a=http://a:1,a=http://b:1",
        many,
    ):
        with pytest.raises(ValueError):
            parse(text)
