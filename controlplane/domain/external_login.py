"""Logins through a directory (OpenID Connect, LDAP): the rights that the groups of a user give, and the reason why a login is rejected. Pure.

Invariants: a user in no configured group is rejected. The rights depend only on the groups of the current login and on the settings. So after the next login a
user has no rights from a group that the user has left. Does not contain: protocols (`controlplane.clients.oidc`), rows (`services.external_logins`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from weir_common.json_values import Json

EVERYONE = "*"
"""Value of `GroupRules.viewers` with which every user of the directory may log in."""
USERNAME_CHARS_MAX = 150
"""Maximum length: the width of Django's column."""
SHOWN_MAX = 20
"""Maximum number of groups or claims in one message. A user may have thousands."""


class LoginSource(StrEnum):
    """The service that verified the password or the second factor."""

    PASSWORD = "password"
    OIDC = "oidc"
    LDAP = "ldap"


class LoginRejection(StrEnum):
    UNREACHABLE = "unreachable"
    BAD_RESPONSE = "bad_response"
    BAD_DIRECTORY = "bad_directory"
    ATTRIBUTE_MISSING = "attribute_missing"
    REJECTED_BY_PROVIDER = "refused_by_provider"
    WRONG_STATE = "wrong_state"
    INVALID_TOKEN = "invalid_token"
    CLAIM_MISSING = "claim_missing"
    TOO_MANY_GROUPS = "too_many_groups"
    NO_GROUP = "no_group"
    INVALID_NAME = "invalid_name"
    NAME_TAKEN = "name_taken"
    DISABLED = "disabled"


REJECTIONS: dict[LoginRejection, str] = {
    LoginRejection.UNREACHABLE: "The login provider {provider} cannot be reached: {cause}. Try again when it is available. Until then an emergency "
    "account can log in with its password. If WEIR_PASSWORD_LOGIN is off, an administrator must turn it on and restart the console.",
    LoginRejection.BAD_RESPONSE: "The login provider {provider} sent a response that cannot be used: {cause}. An administrator must compare the OpenID Connect "
    "settings of Weir with those of the provider.",
    LoginRejection.BAD_DIRECTORY: "The directory {provider} sent a response that cannot be used: {cause}. An administrator must compare the LDAP settings of "
    "Weir with those of the directory.",
    LoginRejection.ATTRIBUTE_MISSING: "The entry {dn} of the directory has no attribute {attribute}, or Weir may not read it. WEIR_LDAP_USER_ATTRIBUTE can name "
    "another one.",
    LoginRejection.REJECTED_BY_PROVIDER: "The login provider {provider} rejected the login: {cause}. Start again. If it happens again, an "
    "administrator of the provider must give the user access to this client, or compare WEIR_OIDC_CLIENT_ID and WEIR_OIDC_CLIENT_SECRET with it.",
    LoginRejection.WRONG_STATE: "This login was not started in this browser, or was started more than an hour ago. Start again.",
    LoginRejection.INVALID_TOKEN: "The ID token of the login provider {provider} is not valid: {cause}. Start again. If it happens again, an "
    "administrator must compare the clocks, WEIR_OIDC_ISSUER and WEIR_OIDC_CLIENT_ID with those of the provider.",
    LoginRejection.CLAIM_MISSING: "The login provider sent no claim {claim}, or an empty one. Claims that it sent: {sent}. An administrator of the provider must add "
    "the claim to the ID token for this client, or WEIR_OIDC_USERNAME_CLAIM and WEIR_OIDC_GROUPS_CLAIM must name other claims.",
    LoginRejection.TOO_MANY_GROUPS: "The login provider did not send the groups of {user}, because there are too many for its token. An administrator of the "
    "provider must limit the claim {claim} to the groups that are assigned to this client.",
    LoginRejection.NO_GROUP: "{user} is in no group that may log in. One of these groups is needed: {needed}. Groups of {user}: {groups}. An "
    "administrator of the directory can add the user to a group.",
    LoginRejection.INVALID_NAME: "{user} cannot be the name of a user: letters, digits and @ . + - _ are allowed, 150 at most. "
    "WEIR_OIDC_USERNAME_CLAIM can name another claim.",
    LoginRejection.NAME_TAKEN: "Another user named {user} exists and is not linked to this account. An administrator can link a local user without administrator "
    "rights to it with WEIR_LOGIN_LINK_USERS, once.",
    LoginRejection.DISABLED: "{user} was disabled in Weir. An administrator can enable the user with manage.py disable_user --enable.",
}
"""Sentences with the names of values in braces. The console translates them."""


class LoginRejected(Exception):
    """`values`: of the placeholders of the sentence, as texts. `user`: the name of the user, if the directory has confirmed it."""

    def __init__(self, rejection: LoginRejection, *, user: str = "", **values: str) -> None:
        self.rejection = rejection
        self.user = user
        self.values = {"user": user, **values}
        super().__init__(REJECTIONS[rejection].format(**self.values))


@dataclass(frozen=True, slots=True)
class GroupRules:
    """Names of groups of the directory. `groups`: the Django group of each. `viewers`: they may log in without further rights; EVERYONE: all may.
    `operators`: `is_staff`. `admins`: `is_staff` and `is_superuser`."""

    groups: Mapping[str, str]
    viewers: Collection[str] = ()
    operators: Collection[str] = ()
    admins: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class UserRights:
    """Flags and Django groups of a user."""

    groups: frozenset[str]
    is_staff: bool
    is_superuser: bool


@dataclass(frozen=True, slots=True)
class ExternalUser:
    """A user that a directory has authenticated. `issuer` and `subject` identify the account permanently; `name` may change."""

    source: LoginSource
    issuer: str
    subject: str
    name: str
    email: str
    groups: frozenset[str]


def rights_of(user: ExternalUser, rules: GroupRules) -> UserRights:
    """Return the flags and Django groups that the user's groups give. Raises LoginRejected for a user in no configured group."""
    mapped = frozenset(rules.groups[g] for g in user.groups if g in rules.groups)
    is_admin = not user.groups.isdisjoint(rules.admins)
    is_operator = is_admin or not user.groups.isdisjoint(rules.operators)
    may_view = EVERYONE in rules.viewers or not user.groups.isdisjoint(rules.viewers)
    if not (mapped or is_operator or may_view):
        needed = sorted({*rules.viewers, *rules.groups, *rules.operators, *rules.admins})
        raise LoginRejected(
            LoginRejection.NO_GROUP, user=user.name, needed=name_list(needed), groups=name_list(sorted(user.groups))
        )
    return UserRights(mapped, is_operator, is_admin)


def name_list(names: Collection[str]) -> str:
    """The first names, separated by commas; `-` for none."""
    first = list(names)[:SHOWN_MAX]
    rest = f", ... ({len(names)})" if len(names) > SHOWN_MAX else ""
    return (", ".join(first) or "-") + rest


def claim(claims: Mapping[str, Json], name: str) -> Json:
    """The claim of this name. A name with dots also names a claim inside of objects: `realm_access.roles`. None: not sent."""
    if name in claims:
        return claims[name]
    value: Json = dict(claims)
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def group_names(value: Json) -> frozenset[str]:
    """The groups of a claim: a list of names, or one name. A leading slash, as Keycloak sends for the path of a group, stays."""
    if isinstance(value, str):
        return frozenset({value} if value else ())
    names: Iterable[Json] = value if isinstance(value, list | tuple | set | frozenset) else ()
    return frozenset(str(name) for name in names if isinstance(name, str | int) and str(name))
