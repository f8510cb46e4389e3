"""The ways to log in that the settings permit."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from weir import authentication
from weir.authentication import LDAP, OIDC, PASSWORDS, backends
from weir.variables import WeirSettings, read


def settings(**environ: str) -> WeirSettings:
    return read(environ, {"bootstrap": "127.0.0.1:19092"})


def test_backends_follow_the_settings() -> None:
    issuer = "https://id.example"
    assert backends(settings()) == [PASSWORDS], "without a directory everything is as before"
    assert backends(settings(WEIR_OIDC_ISSUER=issuer)) == [PASSWORDS, OIDC]
    assert backends(settings(WEIR_OIDC_ISSUER=issuer, WEIR_PASSWORD_LOGIN="off")) == [OIDC]
    directory = {"WEIR_LDAP_URL": "ldaps://ldap.example", "WEIR_LDAP_USER_BASE": "dc=a", "WEIR_LDAP_GROUP_BASE": "dc=a"}
    assert backends(settings(**directory)) == [PASSWORDS, LDAP]
    assert backends(settings(**directory, WEIR_OIDC_ISSUER=issuer, WEIR_PASSWORD_LOGIN="off")) == [LDAP, OIDC]
    for name in (PASSWORDS, LDAP, OIDC):
        import_string(name)


def test_settings_without_a_usable_login_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImproperlyConfigured, match="nobody could log in"):
        backends(settings(WEIR_PASSWORD_LOGIN="off"))
    assert find_spec("authlib") is not None
    monkeypatch.setattr(authentication, "find_spec", lambda name: None)
    with pytest.raises(ImproperlyConfigured, match=r"pip install 'weir\[oidc\]'"):
        backends(settings(WEIR_OIDC_ISSUER="https://id.example"))
    with pytest.raises(ImproperlyConfigured, match=r"pip install 'weir\[ldap\]'"):
        backends(settings(WEIR_LDAP_URL="ldaps://ldap.example"))


def test_a_directory_needs_its_subtrees() -> None:
    with pytest.raises(ImproperlyConfigured, match="WEIR_LDAP_USER_BASE and WEIR_LDAP_GROUP_BASE"):
        backends(settings(WEIR_LDAP_URL="ldaps://ldap.example", WEIR_LDAP_USER_BASE="dc=a"))
