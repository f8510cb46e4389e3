"""SCRAM users: the credentials of the desired state, grouped by user. Invariant: rows contain no keys of a password."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Max, Min, QuerySet, Value
from django.db.models.functions import StrIndex, Substr
from django_filters import rest_framework as filters

from controlplane.domain.access import AccessRecordKind
from controlplane.domain.scram_users import MECHANISMS, credential_key, principal_of
from controlplane.models import AccessEntry, Acl
from controlplane.selectors.acls import AclRow, acl_shape
from controlplane.selectors.common import RowFilter
from controlplane.selectors.paging import Page, PageStart, keys_of
from controlplane.selectors.visibility import USER, sees, visible, visible_names

ACLS_SHOWN_MAX = 200
"""Maximum number of ACLs on the page of one user. The list of ACLs has all."""


@dataclass(frozen=True, slots=True)
class CredentialRow:
    """`applied`: the metadata log contains this credential, so brokers accept it."""

    mechanism: str
    iterations: int
    applied: bool
    changed_at: datetime
    changed_by: str


@dataclass(frozen=True, slots=True)
class UserRow:
    """`changed_at`, `changed_by`: the last change of one of its credentials."""

    name: str
    principal: str
    credentials: list[CredentialRow]
    changed_at: datetime
    changed_by: str


@dataclass(frozen=True, slots=True)
class UserDetail:
    """`acls`: the visible ACLs whose principal is this user, at most 200 of `acl_count`."""

    row: UserRow
    acls: list[AclRow]
    acl_count: int


USER_COLUMNS = {"name": "user", "changed_at": "changed", "mechanisms": "first_mechanism"}


class UserFilter(RowFilter):
    query = filters.CharFilter(field_name="user", lookup_expr="icontains", help_text="Part of a name.")
    mechanism = filters.ChoiceFilter(choices=[(m, m) for m in MECHANISMS], help_text="Users that have this mechanism.")


def user_list(
    *, query: str = "", mechanism: str = "", sort: str = "name", page: PageStart = 1, per_page: int = 50
) -> Page[UserRow]:
    """Users with a credential."""
    users = UserFilter.rows(credentials_by_user(), query=query, mechanism=mechanism)
    return user_page(users, sort=sort, page=page, per_page=per_page, query=query)


def credentials_by_user() -> QuerySet[AccessEntry]:
    """Credentials with the columns `user` and `mechanism`, which the key contains."""
    colon = StrIndex("key", Value(":"))
    return _credentials().annotate(user=Substr("key", colon + 1), mechanism=Substr("key", 1, colon - 1))


def user_page(users: QuerySet[Any], *, sort: str, page: PageStart, per_page: int, query: str = "") -> Page[UserRow]:
    """A page of the users that have one of these credentials."""
    grouped = (
        users.filter(visible_names(USER, "user"))
        .values("user")
        .annotate(changed=Max("changed_at"), first_mechanism=Min("mechanism"))
    )
    column = sort.lstrip("-")
    if column not in USER_COLUMNS:
        sort = column = "name"
    order = {USER_COLUMNS[column]: sort.startswith("-"), **({} if column == "name" else {"user": False})}
    keys, total, window = keys_of(grouped, list(order.items()), page=page, per_page=per_page)
    return Page(_rows(key[-1] for key in keys), total, window, sort, query)


def user_detail(name: str) -> UserDetail | None:
    rows = _rows([name])
    if not rows or not sees(USER, name):
        return None
    acls = visible(Acl.objects.filter(principal=principal_of(name)))
    return UserDetail(rows[0], [acl_shape(a) for a in acls[:ACLS_SHOWN_MAX]], acls.count())


def user_rows(names: Iterable[str]) -> list[UserRow]:
    """The users of these names that have a credential and that the user may see."""
    return [row for row in _rows(names) if sees(USER, row.name)]


def _credentials() -> QuerySet[AccessEntry]:
    return AccessEntry.objects.filter(kind=AccessRecordKind.SCRAM, value__isnull=False)


def _rows(names: Iterable[str]) -> list[UserRow]:
    """The users of these names, in their order, without those that have no credential."""
    names = list(names)
    found: dict[str, list[AccessEntry]] = {}
    keys = [credential_key(mechanism, name) for name in names for mechanism in MECHANISMS]
    for entry in _credentials().filter(key__in=keys).order_by("key"):
        found.setdefault(entry.key.partition(":")[2], []).append(entry)
    return [_user(name, found[name]) for name in names if name in found]


def _user(name: str, entries: list[AccessEntry]) -> UserRow:
    last = max(entries, key=lambda e: e.changed_at)
    return UserRow(
        name=name,
        principal=principal_of(name),
        credentials=[_credential(e) for e in entries],
        changed_at=last.changed_at,
        changed_by=last.changed_by,
    )


def _credential(entry: AccessEntry) -> CredentialRow:
    iterations: int = (entry.value or {})["iterations"]
    return CredentialRow(
        mechanism=entry.key.partition(":")[0],
        iterations=iterations,
        applied=not entry.waiting,
        changed_at=entry.changed_at,
        changed_by=entry.changed_by,
    )
