"""ACL bindings as stored. Brokers enforce them where authorizer.class.name is set."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters

from controlplane.domain.access import AclPermission
from controlplane.models import Acl
from controlplane.selectors.common import RowFilter
from controlplane.selectors.paging import Page, PageStart, paginate
from controlplane.selectors.visibility import visible


@dataclass(frozen=True, slots=True)
class AclRow:
    """A stored ACL. `created_by`: the user who created it."""

    id: int
    resource_type: str
    pattern_type: str
    resource_name: str
    principal: str
    host: str
    operation: str
    permission: str
    created_at: datetime
    created_by: str

    @property
    def is_deny(self) -> bool:
        return self.permission == AclPermission.DENY


ACL_COLUMNS = {
    "resource_name": "resource_name",
    "resource_type": "resource_type",
    "principal": "principal",
    "operation": "operation",
    "permission": "permission",
    "created_at": "created_at",
}


class AclFilter(RowFilter):
    query = filters.CharFilter(method="search", help_text="Part of a resource's name or of a principal.")

    def search(self, rows: QuerySet[Acl], name: str, value: str) -> QuerySet[Acl]:
        return rows.filter(Q(resource_name__icontains=value) | Q(principal__icontains=value))


def acl_list(*, query: str = "", sort: str = "resource_name", page: PageStart = 1, per_page: int = 50) -> Page[AclRow]:
    rows = AclFilter.rows(Acl.objects.all(), query=query)
    return acl_page(rows, sort=sort, page=page, per_page=per_page, query=query)


def acl_page(rows: QuerySet[Acl], *, sort: str, page: PageStart, per_page: int, query: str = "") -> Page[AclRow]:
    return paginate(
        rows,
        lambda found: [acl_shape(a) for a in found],
        page=page,
        per_page=per_page,
        sort=sort,
        columns=ACL_COLUMNS,
        query=query,
    )


def acl_row(acl_id: int) -> AclRow | None:
    row = visible(Acl.objects.filter(pk=acl_id)).first()
    return None if row is None else acl_shape(row)


def acl_shape(acl: Acl) -> AclRow:
    return AclRow(
        id=acl.pk,
        resource_type=acl.resource_type,
        pattern_type=acl.pattern_type,
        resource_name=acl.resource_name,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission=acl.permission,
        created_at=acl.created_at,
        created_by=acl.created_by,
    )
