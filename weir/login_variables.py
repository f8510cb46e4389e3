"""Environment variables of logins to the console: passwords, OpenID Connect, LDAP, and what groups of a directory permit.

Does not contain: all other variables (`weir.variables`), which backends they permit (`weir.authentication`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weir.variable_kinds import (
    FILE,
    GROUP_MAP,
    GROUPS,
    SWITCH,
    TEXT,
    Kind,
    directory_url,
    filter_with,
    integer,
    provider_url,
    scopes,
    variable,
)


@dataclass(frozen=True, kw_only=True)
class LoginSettings:
    """A part of `weir.variables.WeirSettings`."""

    password_login: bool = variable(
        "WEIR_PASSWORD_LOGIN",
        SWITCH,
        "on",
        "Users log in to the console and to /admin/ with passwords that Weir stores. `off`: only through the directory, and sessions of local "
        "users end ([how-to](how-to/log-in-with-oidc.md)).",
    )
    oidc_issuer: str = variable(
        "WEIR_OIDC_ISSUER",
        Kind("URL", "https://host/path, or http:// on this machine", provider_url),
        "",
        "Issuer of the OpenID Connect provider, exactly as in its discovery document. Users of the console log in there "
        "([how-to](how-to/log-in-with-oidc.md)).",
        default_note="no OpenID Connect",
    )
    oidc_name: str = variable(
        "WEIR_OIDC_NAME", TEXT, "OpenID Connect", "Name of the provider on the button of the login page."
    )
    oidc_client_id: str = variable("WEIR_OIDC_CLIENT_ID", TEXT, "weir", "Client ID of the console at the provider.")
    oidc_client_secret: str = variable(
        "WEIR_OIDC_CLIENT_SECRET",
        TEXT,
        "",
        "Client secret of the console at the provider.",
        default_note="a public client, protected by PKCE alone",
        secret=True,
    )
    oidc_scopes: str = variable(
        "WEIR_OIDC_SCOPES",
        Kind("string", "scopes separated by spaces, with openid", scopes),
        "openid profile email",
        "Scopes that the console requests. Some providers send groups only for a further scope, for example `groups`.",
    )
    oidc_username_claim: str = variable(
        "WEIR_OIDC_USERNAME_CLAIM",
        TEXT,
        "preferred_username",
        "Claim with the name of a new user. Later logins find the user by the claim `sub`.",
    )
    oidc_groups_claim: str = variable(
        "WEIR_OIDC_GROUPS_CLAIM",
        TEXT,
        "groups",
        "Claim with the groups of the user. Dots name a claim inside of objects: `realm_access.roles`.",
    )
    ldap_url: str = variable(
        "WEIR_LDAP_URL",
        Kind("URL", "ldaps://host[:port], ldap+starttls://host[:port], or ldap:// on this machine", directory_url),
        "",
        "LDAP directory. Users of the console log in with their password of the directory ([how-to](how-to/log-in-with-ldap.md)).",
        default_note="no LDAP",
    )
    ldap_ca_file: Path | None = variable(
        "WEIR_LDAP_CA_FILE",
        FILE,
        "",
        "Certificates of the authorities that sign the directory's certificate.",
        default_note="those of the system",
    )
    ldap_bind_dn: str = variable(
        "WEIR_LDAP_BIND_DN", TEXT, "", "Account that searches users and groups.", default_note="anonymous"
    )
    ldap_bind_password: str = variable("WEIR_LDAP_BIND_PASSWORD", TEXT, "", "Password of that account.", secret=True)
    ldap_user_base: str = variable(
        "WEIR_LDAP_USER_BASE", TEXT, "", "Subtree of the users, for example ou=people,dc=example,dc=org."
    )
    ldap_user_filter: str = variable(
        "WEIR_LDAP_USER_FILTER",
        filter_with("user"),
        "(uid={user})",
        "Finds the entry of the name that was entered. It must find one entry.",
    )
    ldap_user_attribute: str = variable(
        "WEIR_LDAP_USER_ATTRIBUTE",
        TEXT,
        "uid",
        "Attribute with the name of a new user: `sAMAccountName` in Active Directory.",
    )
    ldap_group_base: str = variable(
        "WEIR_LDAP_GROUP_BASE", TEXT, "", "Subtree of the groups. The attribute cn is the name of a group."
    )
    ldap_group_filter: str = variable(
        "WEIR_LDAP_GROUP_FILTER",
        filter_with("dn", "user"),
        "(member={dn})",
        "Finds the groups of a user. `(memberUid={user})` for POSIX groups.",
    )
    login_groups: tuple[tuple[str, str], ...] = variable(
        "WEIR_LOGIN_GROUPS",
        GROUP_MAP,
        "",
        "Groups of the directory that are also groups of console users, for role bindings: `payments`, or `g-123=payments`. Created if missing.",
        default_note="none",
    )
    login_viewer_groups: tuple[str, ...] = variable(
        "WEIR_LOGIN_VIEWER_GROUPS",
        GROUPS,
        "",
        "Groups of the directory whose members may see the console. `*`: every user of the directory.",
        default_note="none",
    )
    login_operator_groups: tuple[str, ...] = variable(
        "WEIR_LOGIN_OPERATOR_GROUPS",
        GROUPS,
        "",
        "Groups of the directory whose members are operators of the whole cluster (`is_staff`).",
        default_note="none",
    )
    login_admin_groups: tuple[str, ...] = variable(
        "WEIR_LOGIN_ADMIN_GROUPS",
        GROUPS,
        "",
        "Groups of the directory whose members are administrators (`is_staff` and `is_superuser`).",
        default_note="none",
    )
    login_link_users: bool = variable(
        "WEIR_LOGIN_LINK_USERS",
        SWITCH,
        "off",
        "The first login through the directory takes over the local user of the same name, with its tokens and role bindings. Never an administrator. "
        "Use it only during the change from passwords to the directory.",
    )
    login_session_minutes: int = variable(
        "WEIR_LOGIN_SESSION_MINUTES",
        integer(2, 1440),
        "60",
        "A session of a user of the directory ends this time after the directory has last confirmed the user. After half of this time, pages "
        "renew it through OpenID Connect without asking the user.",
        unit="minutes",
    )
    login_token_days: int = variable(
        "WEIR_LOGIN_TOKEN_DAYS",
        integer(1, 365),
        "30",
        "API tokens of a user of the directory are rejected this number of days after the last login.",
        unit="days",
    )
