"""Pages of rows. A selector counts, sorts and slices: it reads the keys of a page first, and clamps a page number to the existing pages."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.pagination import PageNumberPagination
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.selectors.common import PER_PAGE_MAX, Page


class PageQuery(serializers.Serializer[Any]):
    sort = serializers.CharField(default="", allow_blank=True)
    page = serializers.IntegerField(default=1, min_value=1)
    per_page = serializers.IntegerField(default=50, min_value=1, max_value=PER_PAGE_MAX)


class RowPagination(PageNumberPagination):
    page_size_query_param = "per_page"
    page_size = 50
    max_page_size = PER_PAGE_MAX
    rows: Page[Any]

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        """The page of `view.page_of`, which gets the queryset that the view filtered, and the view's checked `paging`."""
        self.rows = view.page_of(queryset, **{**view.paging, "sort": view.paging["sort"] or view.ordering})
        return self.rows.rows

    def get_paginated_response(self, data: Any) -> Response:
        found = self.rows
        return Response(
            {
                "rows": data,
                "total": found.total,
                "page": found.page,
                "pages": found.pages,
                "per_page": found.per_page,
                "sort": found.sort,
                "query": found.query,
            }
        )

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        number, text = {"type": "integer"}, {"type": "string"}
        properties = {
            "rows": schema,
            "total": {**number, "description": "Rows over all pages."},
            "page": number,
            "pages": number,
            "per_page": number,
            "sort": text,
            "query": text,
        }
        return {"type": "object", "required": list(properties), "properties": properties}

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        shapes: dict[str, dict[str, Any]] = {
            "page": {"type": "integer", "minimum": 1, "default": 1},
            "per_page": {"type": "integer", "minimum": 1, "maximum": PER_PAGE_MAX, "default": self.page_size},
            "sort": {"type": "string", "description": "A column, '-' in front for descending."},
        }
        return [{"name": n, "required": False, "in": "query", "schema": shape} for n, shape in shapes.items()]
