"""Django's list of authentication backends, by the settings. Does not contain: the backends (`services.login_backends`)."""

from __future__ import annotations

from importlib.util import find_spec

from django.core.exceptions import ImproperlyConfigured

from weir.variables import WeirSettings

PASSWORDS = "django.contrib.auth.backends.ModelBackend"
OIDC = "controlplane.services.login_backends.OidcUsers"
LDAP = "controlplane.services.login_backends.LdapUsers"


def backends(weir: WeirSettings) -> list[str]:
    """Raises ImproperlyConfigured for settings with which no user could log in, or whose library is not installed."""
    if weir.oidc_issuer and find_spec("authlib") is None:
        raise ImproperlyConfigured(
            "WEIR_OIDC_ISSUER is set, and the package Authlib is not installed: pip install 'weir[oidc]'."
        )
    if weir.ldap_url and find_spec("ldap3") is None:
        raise ImproperlyConfigured(
            "WEIR_LDAP_URL is set, and the package ldap3 is not installed: pip install 'weir[ldap]'."
        )
    if weir.ldap_url and not (weir.ldap_user_base and weir.ldap_group_base):
        raise ImproperlyConfigured("WEIR_LDAP_URL also needs WEIR_LDAP_USER_BASE and WEIR_LDAP_GROUP_BASE.")
    found = [PASSWORDS] if weir.password_login else []
    found += [LDAP] if weir.ldap_url else []
    found += [OIDC] if weir.oidc_issuer else []
    if not found:
        raise ImproperlyConfigured(
            "WEIR_PASSWORD_LOGIN is off, and no directory is configured, so nobody could log in. Set WEIR_OIDC_ISSUER, WEIR_LDAP_URL, or WEIR_PASSWORD_LOGIN=on."
        )
    return found
