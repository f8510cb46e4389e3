"""Routes: list, one with the states of its partitions, create, change, delete, test a record."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from brokerd.cluster.routes import BINDINGS_MAX, RouteStart
from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.models import AccessEntry
from controlplane.selectors import routes
from controlplane.services import routes as services

ROUTE = serializers.shape(routes.RouteRow)
TESTED = serializers.shape(routes.RouteTestRow)
PRINCIPAL_HELP = (
    "The ACLs and quotas of this principal apply to the route, for example User:payments. "
    "Empty: the brokers route with their own identity."
)


def bindings_field(*, required: bool | None = None) -> drf.ListField:
    return drf.ListField(
        child=drf.JSONField(),
        help_text=f"At most {BINDINGS_MAX}. Each has a target and a match, for example "
        '{"target": "paid", "match": {"kind": "key", "value": "paid"}}. Kinds: key, pattern (value with * and #), headers_all, headers_any '
        "(headers: [{name, value}], value null: present), all. Optional: sample_percent, sample_by (key, offset), set_headers, remove_headers, "
        "key_from_header, drop_key.",
        required=required,
    )


class RouteFields(serializers.Comment):
    name = drf.CharField(max_length=100)
    start = drf.ChoiceField(
        choices=[(s.value, s.value) for s in RouteStart],
        default=RouteStart.LATEST.value,
        help_text="Where the route begins in the partitions that exist now.",
    )
    enabled = drf.BooleanField(default=True)
    owner = drf.CharField(default="", allow_blank=True)
    description = drf.CharField(default="", allow_blank=True)
    principal = drf.CharField(default="", allow_blank=True, help_text=PRINCIPAL_HELP)
    bindings = bindings_field()


# Not in the class: every serializer field has an attribute `source` of another meaning.
RouteCreate: type[drf.Serializer[object]] = type(
    "RouteCreate",
    (RouteFields,),
    {"source": drf.CharField(help_text="The topic whose records are routed. It never changes.")},
)


class RouteAlter(serializers.RequiredComment):
    enabled = drf.BooleanField(required=False)
    owner = drf.CharField(required=False, allow_blank=True)
    description = drf.CharField(required=False, allow_blank=True)
    principal = drf.CharField(required=False, allow_blank=True, help_text=PRINCIPAL_HELP)
    bindings = bindings_field(required=False)
    if_generation = drf.IntegerField(default=None, allow_null=True, help_text="Reject the change if it changed since.")


class RouteHeader(drf.Serializer[object]):
    name = drf.CharField()
    value = drf.CharField(allow_blank=True, trim_whitespace=False)


class RouteTestBody(drf.Serializer[object]):
    key = drf.CharField(default=None, allow_null=True, allow_blank=True, trim_whitespace=False)
    headers = RouteHeader(many=True, default=list)


class RouteViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    queryset = AccessEntry.objects.all()
    filterset_class = routes.RouteFilter
    page_of = staticmethod(routes.route_page)
    ordering = "name"
    lookup_url_kwarg = "name"
    lookup_value_converter = "str"
    noun = "route"

    def get_queryset(self) -> QuerySet[AccessEntry]:
        return routes.route_rows()

    def get_serializer_class(self) -> type[serializers.RowSerializer]:
        return serializers.shape(routes.RouteDetail) if self.action == "retrieve" else ROUTE

    def get_row(self, key: str) -> routes.RouteDetail | routes.RouteRow | None:
        return routes.route_detail(key) if self.action == "retrieve" else routes.route_row(key)

    @extend_schema(request=RouteCreate, responses={201: ROUTE})
    def create(self, request: Request) -> Response:
        """Copy records of a topic to other topics, exactly once. Rejected if a record could return to the source topic."""
        values = self.body(RouteCreate)
        name, comment = values.pop("name"), values.pop("comment")
        services.create_route(name, values, actor=self.actor, comment=comment)
        return Response(ROUTE(routes.route_row(name)).data, status=201)

    @extend_schema(request=RouteAlter, responses={200: ROUTE})
    def partial_update(self, request: Request, name: str) -> Response:
        """Change bindings, enable or disable. Records that brokers have matched keep their targets."""
        self.get_object()
        values = self.body(RouteAlter)
        comment, generation = values.pop("comment"), values.pop("if_generation")
        services.change_route(name, values, actor=self.actor, comment=comment, if_generation=generation)
        return Response(ROUTE(routes.route_row(name)).data)

    @extend_schema(request=serializers.RequiredComment, responses={204: None})
    def destroy(self, request: Request, name: str) -> Response:
        """Stop routing. Records in the targets stay."""
        self.get_object()
        services.delete_route(name, actor=self.actor, comment=self.body(serializers.RequiredComment)["comment"])
        return Response(status=204)

    @extend_schema(request=RouteTestBody, responses={200: TESTED(many=True)})
    @action(detail=True, methods=["post"])
    def test(self, request: Request, name: str) -> Response:
        """The records that the route would write for a record with this key and these headers. Writes nothing."""
        self.get_object()
        values = self.body(RouteTestBody)
        headers = [(h["name"], h["value"]) for h in values["headers"]]
        return Response(TESTED(routes.test_record(name, values["key"], headers) or [], many=True).data)
