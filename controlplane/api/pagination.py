"""Pages of lists: the query parameters, the cursor, and the body of a page.

Invariants: a cursor is a signed position in the order of one list, so a client cannot create one. It is valid only for the path and the order of its
list. Rows that
are added or removed between two requests do not move the others. Does not contain: the reading of rows (`controlplane.selectors.paging`).
"""

from __future__ import annotations

import dataclasses
import typing
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core import signing
from rest_framework import serializers
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from controlplane.api.serializers import field_of, shape
from controlplane.selectors.common import plain
from controlplane.selectors.paging import PER_PAGE_MAX, Page, PageCursor

LIMIT = 50
"""Rows of a page without `limit`."""
CURSOR, LIMIT_NAME, SORT = "cursor", "limit", "sort"
CURSOR_HELP = "Where the page begins: `next_cursor` of the page before. Empty: the first page."
SORT_HELP = "A column, '-' in front for descending. With a cursor: that of the first page, or nothing."
NOT_A_CURSOR = "This is not a cursor of this list. Use `next_cursor` of its last page, or leave the cursor out."


def cursor_of(path: str, page: Page[object]) -> str | None:
    """The cursor of the next page of the list at this path; None after the last one."""
    after = page.window.after
    if after is None:
        return None
    values = [str(v) if isinstance(v, datetime | UUID) else v for v in after.values]
    return _signer(path).sign_object([page.sort, values])


def place_of(path: str, cursor: str) -> tuple[str, PageCursor]:
    """(order of the list, place) of a cursor. Raises signing.BadSignature."""
    sort, values = _signer(path).unsign_object(cursor)
    return sort, PageCursor(tuple(values))


def _signer(path: str) -> signing.Signer:
    return signing.Signer(salt=f"weir.cursor:{path}")


class PageFields(serializers.Serializer[object]):
    """Cursor and limit of a list with one order. The checked values are the arguments `page` and `per_page` of a selector."""

    cursor = serializers.CharField(default="", allow_blank=True, help_text=CURSOR_HELP)
    limit = serializers.IntegerField(
        default=LIMIT, min_value=1, max_value=PER_PAGE_MAX, help_text="Rows of the page at most."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        cursor, limit, requested = attrs.pop(CURSOR), attrs.pop(LIMIT_NAME), attrs.pop(SORT, "")
        sort, page = requested, PageCursor()
        if cursor:
            try:
                sort, page = place_of(self.context["path"], cursor)
            except signing.BadSignature as e:
                raise serializers.ValidationError({CURSOR: NOT_A_CURSOR}) from e
        if requested not in ("", sort):
            raise serializers.ValidationError(
                {CURSOR: f"The cursor belongs to the order {sort!r}. Leave `sort` out, or begin without a cursor."}
            )
        order = {SORT: sort} if SORT in self.fields and sort else {}
        return {**attrs, **order, "page": page, "per_page": limit}


class PageQuery(PageFields):
    """`sort` is missing in the checked values if there is none, so that the selector's default applies."""

    sort = serializers.CharField(default="", allow_blank=True, help_text=SORT_HELP)


class RowPagination(BasePagination):
    rows: Page[Any]
    request: Request

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        """The page of `view.page_of`, which gets the queryset that the view filtered, and the view's checked `paging`."""
        self.request = request
        self.rows = view.page_of(queryset, **{"sort": view.ordering, **view.paging})
        return self.rows.rows

    def get_paginated_response(self, data: object) -> Response:
        return page_response(self.request, self.rows, data)

    def get_paginated_response_schema(self, schema: dict[str, object]) -> dict[str, object]:
        number, text = {"type": "integer"}, {"type": "string"}
        properties = {
            "rows": schema,
            "total": {**number, "description": "Rows over all pages."},
            "limit": number,
            "sort": text,
            "query": text,
            "next_cursor": {**text, "nullable": True, "description": "Null: this is the last page."},
        }
        return {"type": "object", "required": list(properties), "properties": properties}

    def get_schema_operation_parameters(self, view: object) -> list[dict[str, object]]:
        limit = {"type": "integer", "minimum": 1, "maximum": PER_PAGE_MAX, "default": LIMIT}
        shapes: dict[str, tuple[dict[str, object], str]] = {
            CURSOR: ({"type": "string"}, CURSOR_HELP),
            LIMIT_NAME: (limit, "Rows of the page at most."),
            SORT: ({"type": "string"}, SORT_HELP),
        }
        return [
            {"name": n, "required": False, "in": "query", "schema": kind, "description": text}
            for n, (kind, text) in shapes.items()
        ]


def page_shape(kind: type, *, name: str = "", row: type | None = None) -> type[serializers.Serializer[object]]:
    """The schema of a page. `kind`: Page, or its subclass with further fields. `row`: the type of a row of a plain Page."""
    hints = typing.get_type_hints(kind)
    fields: dict[str, object] = {}
    for f in dataclasses.fields(kind):
        if f.name == "window":
            fields["limit"] = serializers.IntegerField()
            fields["next_cursor"] = serializers.CharField(allow_null=True)
        else:
            fields[f.name] = shape(row)(many=True) if row and f.name == "rows" else field_of(hints[f.name])
    return type(name or kind.__name__, (serializers.Serializer,), {**fields, "__doc__": kind.__doc__})


def page_response(request: Request, page: Page[Any], rows: Any = None) -> Response:
    """A page as response, with the address of the next one in the header Link (RFC 8288), which a list as CSV has, too. `rows`: its rows as JSON values
    where they are known already."""
    cursor = cursor_of(request.path, page)
    body = {f.name: getattr(page, f.name) for f in dataclasses.fields(page) if f.name not in ("rows", "window")}
    body = {name: plain(value) for name, value in body.items()}
    body = {"rows": plain(page.rows) if rows is None else rows, **body, "limit": page.per_page, "next_cursor": cursor}
    response = Response(body)
    if cursor is not None:
        address = replace_query_param(request.build_absolute_uri(), CURSOR, cursor)
        response.headers["Link"] = f'<{address}>; rel="next"'
    return response
