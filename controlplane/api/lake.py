"""Tables of the lake, and queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import InputMixin
from controlplane.selectors import lake as selectors
from controlplane.services import Rejected
from controlplane.services import lake as services
from weir_common.lake_queries import SQL_LENGTH_MAX

TABLE = serializers.shape(selectors.LakeTable)
DETAIL = serializers.shape(selectors.LakeTableDetail)
RESULT = serializers.shape(selectors.QueryResult)


class LakeQueryRequest(serializers.Comment):
    sql = drf.CharField(
        max_length=SQL_LENGTH_MAX, help_text="One SELECT statement. Tables have the names of their topics."
    )


class LakeTablesView(InputMixin):
    @extend_schema(responses=TABLE(many=True))
    def get(self, request: Request) -> Response:
        """The tables of the lake, with rows, files and bytes of the current snapshot."""
        return Response(TABLE(_call(selectors.tables), many=True).data)


class LakeTableView(InputMixin):
    @extend_schema(responses=DETAIL)
    def get(self, request: Request, namespace: str, name: str) -> Response:
        """A table: columns, archived positions, the newest snapshots and the first files."""
        found = _call(lambda: selectors.table(namespace, name))
        if found is None:
            raise Http404(f"There is no table {namespace}.{name}.")
        return Response(DETAIL(found).data)


T = TypeVar("T")


class LakeQueryView(InputMixin):
    @extend_schema(request=LakeQueryRequest, responses=RESULT)
    def post(self, request: Request) -> Response:
        """Run one SELECT with DuckDB, read only: at most 1,000 rows, 30 s and 512 MB. An error of the query is part of the result."""
        v = self.body(LakeQueryRequest)
        return Response(RESULT(services.query_lake(v["sql"], actor=self.actor, comment=v["comment"])).data)


def _call(read: Callable[[], T]) -> T:
    try:
        return read()
    except selectors.LakeUnavailable as e:
        raise Rejected(str(e)) from e
