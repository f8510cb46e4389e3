"""The base of bulk operations: the named objects or all objects of a filter, a preview, and a result for each object.

Invariants: the roles of all objects are checked before the first change. A rejected object does not stop the others. `dry` changes nothing. Does not
contain: the operations (`bulk_operations`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, NotRequired, TypedDict, cast

import django_filters
from rest_framework import serializers as drf
from rest_framework.exceptions import PermissionDenied
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import InputMixin
from controlplane.domain.errors import Rejected
from controlplane.domain.roles import Access, RoleResource
from controlplane.selectors.bulk_lists import LISTS, BulkList, keys_of_filter
from controlplane.selectors.common import TruthFilter
from controlplane.services import authorization

NEEDS_COMMENT = "Give a reason; it is recorded in the audit log."
NAMES_OR_FILTER = "Give either names or a filter. An empty filter has all rows."


class BulkItemOutcome(StrEnum):
    PLANNED = "planned"
    """A dry run found that the change would be made."""
    REQUESTED = "requested"
    """The controller applies it now."""
    DONE = "done"
    UNCHANGED = "unchanged"
    UNKNOWN = "unknown"
    """The cluster did not respond in time."""
    NOT_FOUND = "not_found"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class BulkItemChange:
    """One value of an object. Null: it has none, or will have none."""

    name: str
    now: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class BulkItem:
    """The preview or the result of one object. `key`: as in `names`. `outcome`: planned (in a dry run), requested (the controller applies it now), done,
    unchanged, unknown (the cluster did not respond in time), not_found, or rejected: `detail` says why. `generation` of a topic: see
    `if_generations`."""

    key: str
    name: str
    outcome: str
    detail: str = ""
    changes: list[BulkItemChange] = field(default_factory=list)
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class BulkReport:
    """`outcomes`: the number of objects of each outcome. `rows`: in the order of the names or of the list."""

    dry: bool
    total: int
    outcomes: dict[str, int]
    rows: list[BulkItem]


REPORT = serializers.shape(BulkReport)


@cache
def filter_body(kind: BulkList) -> type[drf.Serializer[object]]:
    """The filter of a list as an object of a body, with the names of its query parameters."""
    filters, fields = LISTS[kind].filters, dict[str, drf.Field[Any, Any, Any, Any]]()
    for name, one in filters.base_filters.items():
        options = {"required": False, "help_text": one.extra.get("help_text", "")}
        if isinstance(one, django_filters.ChoiceFilter):
            fields[name] = drf.ChoiceField(choices=one.extra["choices"], **options)
        elif isinstance(one, TruthFilter):
            fields[name] = drf.BooleanField(**options)
        elif isinstance(one, django_filters.IsoDateTimeFilter):
            fields[name] = drf.DateTimeField(**options)
        else:
            fields[name] = drf.CharField(allow_blank=True, **options)
    return type(f"Bulk{filters.__name__}", (drf.Serializer,), fields)


class BulkBody(drf.Serializer[object]):
    """The objects of a bulk operation: either `names`, or all objects that match `filter`."""

    comment_required: ClassVar[bool] = True
    """Also the deletion or change of one object needs a reason."""
    names = drf.ListField(
        child=drf.CharField(trim_whitespace=False, max_length=1000),
        default=None,
        allow_null=True,
        allow_empty=False,
        help_text="The objects: names of topics, groups or users, numbers of quotas, alerts or moves.",
    )
    dry = drf.BooleanField(default=False, help_text="Only show what would be changed.")
    comment = drf.CharField(
        default="", allow_blank=True, help_text="Reason, stored with each change. A dry run needs none."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        errors = {}
        if (attrs["names"] is None) == (attrs["filter"] is None):
            errors["names"] = [NAMES_OR_FILTER]
        if self.comment_required and not attrs["dry"] and not attrs["comment"].strip():
            errors["comment"] = [drf.ErrorDetail(NEEDS_COMMENT, code="required")]
        if errors:
            raise drf.ValidationError(errors)
        return attrs


def body_of(name: str, kind: BulkList, **fields: Any) -> type[BulkBody]:
    """The body of an operation on the rows of a list."""
    chosen = filter_body(kind)(default=None, allow_null=True, help_text="The filter of the list; {} = all objects.")
    return type(name, (BulkBody,), {"filter": chosen, **fields})


class BulkValues(TypedDict):
    """The checked values of a `BulkBody`. `names` or `filter` is None. The other keys belong to the bodies that have these fields."""

    names: list[str] | None
    filter: dict[str, object] | None
    dry: bool
    comment: str
    if_generations: NotRequired[dict[str, int]]
    configs: NotRequired[dict[str, str | None]]
    limits: NotRequired[dict[str, float | None]]
    throttle_bytes_per_s: NotRequired[int | None]


class BulkView(InputMixin):
    """`objects_max`: objects of one request. `resource`: what the roles are about; None: the whole cluster."""

    kind: ClassVar[BulkList]
    resource: ClassVar[RoleResource | None]
    objects_max: ClassVar[int]
    reader: ClassVar[type[BulkBody]]

    def run(self) -> Response:
        values = cast(BulkValues, self.body(self.reader))
        keys = (
            values["names"]
            if values["names"] is not None
            else keys_of_filter(self.kind, values["filter"] or {}, self.objects_max)
        )
        keys = list(dict.fromkeys(keys))
        if len(keys) > self.objects_max:
            raise Rejected(
                f"{len(keys):,} names are more than {self.objects_max:,}, the limit of this operation.", "names"
            )
        previewed = {item.key: item for item in self.preview(keys, values)}
        self._require_role(list(previewed.values()), keys)
        found = dict(previewed)
        planned = [item for item in previewed.values() if item.outcome == BulkItemOutcome.PLANNED]
        if planned and not values["dry"]:
            found |= {item.key: item for item in self.execute(planned, values)}
        rows = [found.get(k) or BulkItem(k, k, BulkItemOutcome.NOT_FOUND) for k in keys]
        counts = {str(o): sum(1 for r in rows if r.outcome == o) for o in BulkItemOutcome}
        return Response(REPORT(BulkReport(values["dry"], len(rows), {o: n for o, n in counts.items() if n}, rows)).data)

    def _require_role(self, items: Sequence[BulkItem], keys: Sequence[str]) -> None:
        """Raises PermissionDenied with the objects that the user may not change."""
        if self.resource is None:
            return
        names = self.names_of(items, keys)
        if reason := authorization.rejection_of(self.request.user, Access.OPERATE, self.resource, names):
            raise PermissionDenied(reason)

    def names_of(self, items: Sequence[BulkItem], keys: Sequence[str]) -> Collection[str]:
        """The names that the role bindings are about: the keys, where they are names."""
        return list(keys)

    def preview(self, keys: Sequence[str], v: BulkValues) -> list[BulkItem]:
        raise NotImplementedError

    def execute(self, items: Sequence[BulkItem], v: BulkValues) -> list[BulkItem]:
        """The change of the objects that the preview does not reject."""
        raise NotImplementedError
