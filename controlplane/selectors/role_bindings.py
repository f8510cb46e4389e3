"""Role bindings as stored. Does not contain: what they permit (`controlplane.services.authorization`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters

from controlplane.domain.roles import AccessRole, RoleResource
from controlplane.models import RoleBinding
from controlplane.selectors.common import RowFilter
from controlplane.selectors.paging import Page, PageStart, paginate


@dataclass(frozen=True, slots=True)
class RoleBindingRow:
    """`user` or `group` (of console users) is empty. `role`: reader, writer, operator or owner. `pattern_type`: literal or prefixed."""

    id: int
    user: str
    group: str
    role: str
    resource_type: str
    pattern_type: str
    resource_name: str
    created_at: datetime
    created_by: str


BINDING_COLUMNS = {
    "id": "id",
    "user": "user__username",
    "group": "group__name",
    "role": "role",
    "resource_type": "resource_type",
    "resource_name": "resource_name",
    "created_at": "created_at",
}


class RoleBindingFilter(RowFilter):
    query = filters.CharFilter(method="search", help_text="Part of a user, a group or a resource name.")
    user = filters.CharFilter(field_name="user__username")
    group = filters.CharFilter(field_name="group__name")
    role = filters.ChoiceFilter(choices=[(r.value, r.value) for r in AccessRole])
    resource_type = filters.ChoiceFilter(choices=[(r.value, r.value) for r in RoleResource])

    def search(self, rows: QuerySet[RoleBinding], name: str, value: str) -> QuerySet[RoleBinding]:
        return rows.filter(
            Q(user__username__icontains=value) | Q(group__name__icontains=value) | Q(resource_name__icontains=value)
        )


def binding_list(
    *, query: str = "", sort: str = "-id", page: PageStart = 1, per_page: int = 50
) -> Page[RoleBindingRow]:
    rows = RoleBindingFilter.rows(RoleBinding.objects.all(), query=query)
    return binding_page(rows, sort=sort, page=page, per_page=per_page, query=query)


def binding_page(
    rows: QuerySet[RoleBinding], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[RoleBindingRow]:
    return paginate(
        rows.select_related("user", "group"),
        lambda found: [binding_shape(r) for r in found],
        page=page,
        per_page=per_page,
        sort=sort,
        columns=BINDING_COLUMNS,
        query=query,
        tie="-id",
    )


def binding_row(binding_id: int) -> RoleBindingRow | None:
    row = RoleBinding.objects.select_related("user", "group").filter(pk=binding_id).first()
    return None if row is None else binding_shape(row)


def binding_shape(row: RoleBinding) -> RoleBindingRow:
    return RoleBindingRow(
        id=row.pk,
        user=row.user.get_username() if row.user is not None else "",
        group=row.group.name if row.group is not None else "",
        role=row.role,
        resource_type=row.resource_type,
        pattern_type=row.pattern_type,
        resource_name=row.resource_name,
        created_at=row.created_at,
        created_by=row.created_by,
    )


def bindings_of(user_id: int) -> list[RoleBinding]:
    """The bindings of a user and of their groups."""
    rows = RoleBinding.objects.select_related("user", "group")
    return list(rows.filter(Q(user=user_id) | Q(group__user=user_id)).distinct().order_by("id"))
