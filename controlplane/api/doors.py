"""What every view shares: who may write, how queries and bodies are read, how rows go out. Law: no domain in here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.http import Http404
from django.http.response import HttpResponseBase
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.api import shapes
from controlplane.selectors.common import as_dict

F = TypeVar("F", bound=Callable[..., HttpResponseBase])


class Schema(AutoSchema):
    """Operations are named after their door and method, so that generated clients read well and no two collide."""

    def get_operation_id(self) -> str:
        name = "".join(f"_{c.lower()}" if c.isupper() else c for c in type(self.view).__name__).strip("_")
        return f"{name}_{self.method.lower()}"


class Operators(BasePermission):
    """Whoever is logged in may look; operators (staff) may act."""

    message = "Only operators may change the cluster; ask one for the role."

    def has_permission(self, request: Request, view: APIView) -> bool:
        user = request.user
        return bool(user and user.is_authenticated and (request.method in SAFE_METHODS or user.is_staff))


class Door(APIView):
    permission_classes = [Operators]

    def read(self, kind: type[serializers.Serializer[Any]], data: Any = None) -> dict[str, Any]:
        """The request's body (or query) as checked values; raises DRF's ValidationError."""
        reader = kind(data=self.request.query_params if data is None else data)
        reader.is_valid(raise_exception=True)
        return dict(reader.validated_data)

    def body(self, kind: type[serializers.Serializer[Any]]) -> dict[str, Any]:
        # A DELETE without a body is an empty one.
        return self.read(kind, self.request.data or {})

    def listing(self, kind: type[serializers.Serializer[Any]], default_sort: str) -> dict[str, Any]:
        values = self.read(kind)
        values["sort"] = values["sort"] or default_sort
        return values

    @property
    def who(self) -> str:
        return str(self.request.user.get_username())


def out(row: Any, status: int = 200) -> Response:
    return Response(as_dict(row), status=status)


def out_list(rows: list[Any]) -> Response:
    return Response([as_dict(r) for r in rows])


def found(row: Any, what: str) -> Any:
    """`row`, or a 404 that names what is not there."""
    if row is None:
        raise Http404(f"There is no {what}.")
    return row


def reads(response: Any, query: Any = None) -> Callable[[F], F]:
    """The schema of a read."""
    return extend_schema(
        parameters=[query] if query is not None else None,
        responses={200: response, 401: shapes.Error, 404: shapes.Error, 400: shapes.Error},
    )


def writes(request: Any, response: Any, status: int = 200) -> Callable[[F], F]:
    """The schema of an act."""
    return extend_schema(
        request=request,
        responses={status: response, 400: shapes.Error, 401: shapes.Error, 403: shapes.Error, 409: shapes.Error},
    )
