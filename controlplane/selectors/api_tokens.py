"""API tokens for lists. Invariant: rows contain neither a token nor its hash. A user sees their own tokens, a superuser the tokens of all users."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import QuerySet
from django.utils import timezone
from django_filters import rest_framework as filters

from controlplane.domain.token_scopes import TokenScope
from controlplane.models import ApiToken
from controlplane.selectors.common import RowFilter
from controlplane.selectors.paging import Page, PageStart, paginate


@dataclass(frozen=True, slots=True)
class ApiTokenRow:
    """`prefix`: the first characters of the token. `expires_at` null = no end. `last_used_at` is exact to a minute."""

    id: int
    name: str
    user: str
    scope: str
    prefix: str
    created_at: datetime
    expires_at: datetime | None
    expired: bool
    last_used_at: datetime | None


TOKEN_COLUMNS = {
    "id": "id",
    "name": "name",
    "user": "user__username",
    "scope": "scope",
    "created_at": "created_at",
    "expires_at": "expires_at",
    "last_used_at": "last_used_at",
}


class ApiTokenFilter(RowFilter):
    query = filters.CharFilter(field_name="name", lookup_expr="icontains", help_text="Part of a name.")
    scope = filters.ChoiceFilter(choices=[(s.value, s.value) for s in TokenScope])


def visible_tokens(user: User | AnonymousUser) -> QuerySet[ApiToken]:
    """The tokens that this user may see and revoke."""
    rows = ApiToken.objects.select_related("user")
    if user.is_superuser:
        return rows
    return rows.filter(user=user) if user.is_authenticated else rows.none()


def token_list(
    user: User | AnonymousUser, *, query: str = "", sort: str = "-id", page: PageStart = 1, per_page: int = 50
) -> Page[ApiTokenRow]:
    rows = ApiTokenFilter.rows(visible_tokens(user), query=query)
    return token_page(rows, sort=sort, page=page, per_page=per_page, query=query)


def token_page(
    rows: QuerySet[ApiToken], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[ApiTokenRow]:
    return paginate(
        rows,
        lambda found: [token_shape(row) for row in found],
        page=page,
        per_page=per_page,
        sort=sort,
        columns=TOKEN_COLUMNS,
        query=query,
    )


def token_row(token_id: int, user: User | AnonymousUser) -> ApiTokenRow | None:
    row = visible_tokens(user).filter(pk=token_id).first()
    return None if row is None else token_shape(row)


def token_shape(row: ApiToken) -> ApiTokenRow:
    return ApiTokenRow(
        id=row.pk,
        name=row.name,
        user=row.user.get_username(),
        scope=row.scope,
        prefix=row.prefix,
        created_at=row.created_at,
        expires_at=row.expires_at,
        expired=row.expires_at is not None and row.expires_at <= timezone.now(),
        last_used_at=row.last_used_at,
    )
