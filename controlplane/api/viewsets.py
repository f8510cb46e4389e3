"""Bases of all views: the actor, checked input, and rows of selectors as objects. Does not contain domain logic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast

from django.db.models import QuerySet
from django.http import Http404
from django.utils.http import quote_etag
from django_filters.utils import translate_validation
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import SAFE_METHODS
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from controlplane.api import access_rules, idempotency, preconditions
from controlplane.api.errors import InvalidInput, field_errors
from controlplane.api.pagination import PageQuery, page_response
from controlplane.api.renderers import CsvRenderer
from controlplane.api.strict import unknown_parameters, validate_body
from controlplane.selectors import visibility
from controlplane.selectors.common import INTEGER_MAX, RowFilter
from controlplane.selectors.paging import ListOrder, Page, computed_page
from controlplane.services import authorization
from controlplane.services.request_resources import RequestNames

COMMON_PARAMETERS = ("format",)
"""Query parameters of every path: the format of the response."""


class InputMixin(APIView):
    """Checked input. Invariant: a query parameter that the view does not read is an error, also in a request with a body."""

    query_is_checked = False
    response_is_secret = False
    """True if responses to POST contain a secret, which must not be stored."""

    @property
    def actor(self) -> str:
        return str(self.request.user.get_username())

    def body(self, kind: type[serializers.Serializer[Any]]) -> dict[str, Any]:
        """The request's body as checked values; raises InvalidInput. A DELETE without a body has an empty one."""
        return validate_body(kind, self.request.data)

    def query(self, kind: type[serializers.Serializer[Any]], filters: RowFilter | None = None) -> dict[str, Any]:
        """The request's query as checked values; raises InvalidInput. `filters` checks the parameters that are conditions of a list."""
        self.query_is_checked = True
        given = self.request.query_params
        reader = kind(data=given, context={"path": self.request.path})
        errors = unknown_parameters(given, {*reader.fields, *(filters.filters if filters else ()), *COMMON_PARAMETERS})
        if not reader.is_valid():
            errors += field_errors(reader.errors)
        if filters is not None and not filters.is_valid():
            errors += field_errors(translate_validation(filters.errors).detail)
        if errors:
            raise InvalidInput(errors)
        return dict(reader.validated_data)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        for number in kwargs.values():
            if isinstance(number, int) and number > INTEGER_MAX:
                raise Http404(f"There is no object with the number {number}.")
        if request.method not in SAFE_METHODS:
            self._reject_query(request)
            # DRF looks the handler up after this method.
            name = str(request.method).lower()
            setattr(self, name, self.guarded(request, getattr(self, name, self.http_method_not_allowed)))

    def check_permissions(self, request: Request) -> None:
        """Check first what the user may see, because a rejection of a change names the topics of its object."""
        if request.user.is_authenticated:
            self._limit_view(request)
        super().check_permissions(request)

    def _limit_view(self, request: Request) -> None:
        """The resources that the selectors return to this request. A user who sees only some resources gets no others, and nothing about the whole cluster.
        Raises PermissionDenied."""
        seen = authorization.visibility_of(request.user)
        visibility.become(seen)
        match = request.resolver_match
        if not seen.limited or match is None:
            return
        change = f"{request.method} {match.url_name}"
        if change in access_rules.OWN:
            return
        is_change = request.method not in SAFE_METHODS
        rule = access_rules.RULES.get(change) if is_change else access_rules.VIEWS.get(str(match.url_name))
        given = RequestNames(match.kwargs, request.data if isinstance(request.data, Mapping) else {}, {})
        if reason := authorization.view_rejection(seen, rule, lambda: given):
            raise PermissionDenied(reason)

    def guarded(self, request: Request, handler: Callable[..., Response]) -> Callable[..., Response]:
        """`handler` with the checks that the headers of the request require."""
        if preconditions.HEADER in request.headers:
            handler = self.with_precondition(handler)
        if request.method == "POST" and idempotency.HEADER in request.headers:
            handler = idempotency.run_once(handler, self.handle_exception, secret=self.response_is_secret)
        return handler

    def with_precondition(self, handler: Callable[..., Response]) -> Callable[..., Response]:
        return preconditions.no_tags

    def finalize_response(self, request: Request, response: Response, *args: object, **kwargs: object) -> Response:
        """A GET whose view read no query accepts no parameters. This is known only after the view has answered. A GET has no effect, so nothing has
        to be undone."""
        if response.status_code < HTTPStatus.BAD_REQUEST and not self.query_is_checked:
            try:
                self._reject_query(request)
            except InvalidInput as rejection:
                response = self.handle_exception(rejection)
        return super().finalize_response(request, response, *args, **kwargs)

    def _reject_query(self, request: Request) -> None:
        errors = unknown_parameters(request.query_params, COMMON_PARAMETERS)
        if errors:
            raise InvalidInput(errors)


class RowViewSet(InputMixin, GenericViewSet[Any]):
    """Objects are the rows of selectors. `page_of` gives a page of rows of a queryset, `ordering` is the default sort column."""

    lookup_value_converter = "int"
    noun = ""
    filterset_class: type[RowFilter] | None = None
    page_of: Callable[..., Page[Any]] | None = None
    ordering = "-id"
    tag_of: Callable[..., str | None] | None = None
    """The entity tag of the object with this key; see `controlplane.selectors.entity_tags`. None for an operation that waits for a broker or another
    server (`@action(tag_of=None)`): a precondition would lock the database during the call."""
    tag: str | None = None
    """Read before the row of the response. A change between the two makes the tag too old, which is safe."""
    list_order = ListOrder(unique=("name",))
    """The orders of a computed list."""
    paging: dict[str, Any]
    """The checked page, order and text filter of a list."""

    def get_row(self, key: Any) -> Any:
        """The object of this key, or None."""
        raise NotImplementedError

    @property
    def key(self) -> Any:
        """The key of the object in the path; None in the path of a list."""
        return self.kwargs.get(self.lookup_url_kwarg or self.lookup_field)

    def with_precondition(self, handler: Callable[..., Response]) -> Callable[..., Response]:
        tag_of, key = self.tag_of, self.key
        if tag_of is None or key is None:
            return super().with_precondition(handler)

        def current() -> dict[str, object]:
            return dict(self.get_serializer(self.get_object()).data)

        return preconditions.with_precondition(handler, self.handle_exception, lambda: tag_of(key, lock=True), current)

    def finalize_response(self, request: Request, response: Response, *args: object, **kwargs: object) -> Response:
        response = super().finalize_response(request, response, *args, **kwargs)
        shows_object = self.action == "retrieve" or request.method not in SAFE_METHODS
        if self.tag is not None and shows_object and response.status_code in (HTTPStatus.OK, HTTPStatus.ACCEPTED):
            response.headers["ETag"] = quote_etag(self.tag)
        return response

    def get_object(self) -> Any:
        """The object of the path. Raises Http404, which names the missing object."""
        key = self.key
        self.tag = self.tag_of(key) if self.tag_of else None
        row = self.get_row(key)
        if row is None:
            raise Http404(f"There is no {self.noun} {key!r}.")
        return row

    def get_renderers(self) -> list[BaseRenderer]:
        """Lists are available as CSV, too."""
        options = getattr(getattr(self, self.action or "", None), "kwargs", {})
        is_list = (
            self.action == "list" or "page_of" in options or "list_order" in options or "pagination_class" in options
        )
        return [*super().get_renderers(), *([CsvRenderer()] if is_list else [])]

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Checks page, order and filters together, so that one response names all invalid parameters of a query."""
        filters = self.filterset_class(self.request.query_params, queryset) if self.filterset_class else None
        self.paging = self.query(PageQuery, filters)
        self.paging["query"] = self.request.query_params.get("query", "")
        return queryset if filters is None else cast("QuerySet[Any]", filters.qs)

    def row(self, status: int = 200) -> Response:
        """The object of the path after an operation."""
        return Response(self.get_serializer(self.get_object()).data, status=status)

    def pages(self, rows: QuerySet[Any]) -> Response:
        page = self.paginate_queryset(self.filter_queryset(rows))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    def computed(self, rows: Sequence[object]) -> Response:
        """A page of a list that is computed as a whole, in the order of `list_order`."""
        found = computed_page(rows, self.list_order, **self.query(PageQuery))
        return page_response(self.request, found, self.get_serializer(found.rows, many=True).data)
