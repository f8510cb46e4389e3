"""Cluster documents: plan the difference of a document, apply the plan, export the current state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.errors import InvalidInput
from controlplane.api.permissions import MayRead
from controlplane.api.problems import FieldCode, FieldError
from controlplane.api.viewsets import InputMixin, RowViewSet
from controlplane.domain.cluster_document import InvalidDocument
from controlplane.domain.document_sections import DocumentFault
from controlplane.models import DocumentPlan
from controlplane.selectors import cluster_documents as selectors
from controlplane.selectors.common import as_dict
from controlplane.services import cluster_documents as services

PLAN = serializers.shape(selectors.DocumentPlanRow)
DETAIL = serializers.shape(selectors.DocumentPlanDetail)
CODES = {
    DocumentFault.UNKNOWN_FIELD: FieldCode.UNKNOWN_FIELD,
    DocumentFault.REQUIRED: FieldCode.REQUIRED,
    DocumentFault.INVALID: FieldCode.INVALID,
    DocumentFault.REPEATED: FieldCode.ALREADY_EXISTS,
    DocumentFault.REJECTED: FieldCode.REJECTED,
}


DIFFERENCE = serializers.shape(selectors.DocumentDifferenceRow)


class DocumentCompare(drf.Serializer[object]):
    document = drf.JSONField(
        help_text="version, owner, topics, acls, quotas, routes, users, broker_configs, role_bindings (docs/apply.md)."
    )
    prune = drf.BooleanField(
        default=False, help_text="Delete resources that the owner manages and the document does not have."
    )
    take_over = drf.BooleanField(default=False, help_text="Also take resources that another owner manages.")


class DocumentPlanCreate(DocumentCompare, serializers.Comment):
    pass


class DocumentPlanApply(serializers.RequiredComment):
    digest = drf.CharField(help_text="That of the plan that was read.")


class ExportQuery(drf.Serializer[object]):
    prefix = drf.CharField(required=False, default="", help_text="Only topics and routes with this prefix.")
    owner = drf.CharField(required=False, default="", help_text="Only resources that this owner manages.")


class DocumentPlanViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    queryset = DocumentPlan.objects.all()
    filterset_class = selectors.DocumentPlanFilter
    page_of = staticmethod(selectors.plan_page)
    lookup_url_kwarg = "plan_id"
    noun = "document plan"

    def get_serializer_class(self) -> type[serializers.RowSerializer]:
        return PLAN if self.action == "list" else DETAIL

    def get_row(self, key: int) -> selectors.DocumentPlanDetail | None:
        return selectors.plan_detail(key)

    @extend_schema(request=DocumentPlanCreate, responses={201: DETAIL})
    def create(self, request: Request) -> Response:
        """Compare a document with the current state, and store the difference as a plan. Changes nothing else."""
        given = self.body(DocumentPlanCreate)
        document = given.pop("document")
        with _faults_of_document():
            row = services.plan_document(document, actor=self.actor, **given)
        return Response(DETAIL(selectors.plan_detail(row.pk)).data, status=201)

    @extend_schema(request=DocumentPlanApply, responses={200: DETAIL})
    @action(detail=True, methods=["post"])
    def apply(self, request: Request, plan_id: int) -> Response:
        """Carry out the steps that are not done. Rejected, with the difference, if a resource changed since the plan was made."""
        self.get_object()
        given = self.body(DocumentPlanApply)
        administrator = bool(getattr(request.user, "is_superuser", False))
        services.apply_plan(
            plan_id, given["digest"], actor=self.actor, comment=given["comment"], is_administrator=administrator
        )
        return self.row()

    @extend_schema(responses={200: DIFFERENCE})
    @action(detail=True, methods=["get"])
    def drift(self, request: Request, plan_id: int) -> Response:
        """Return the difference between the current state and the document of this applied plan. Stores nothing."""
        self.get_object()
        return Response(as_dict(selectors.difference_row(services.drift_of(plan_id))))


@contextmanager
def _faults_of_document() -> Iterator[None]:
    """All faults of a document as errors of its fields."""
    try:
        yield
    except InvalidDocument as e:
        raise InvalidInput(
            [
                FieldError(path, CODES[p.fault], f"{path}: {p.detail}")
                for p in e.problems
                for path in (f"document.{p.path}".rstrip("."),)
            ]
        ) from None


class DocumentDifferenceView(InputMixin):
    permission_classes = (MayRead,)

    @extend_schema(operation_id="cluster_document_diff", request=DocumentCompare, responses={200: DIFFERENCE})
    def post(self, request: Request) -> Response:
        """Compare a document with the current state. Stores nothing, so a token of the scope read is enough."""
        given = self.body(DocumentCompare)
        document = given.pop("document")
        with _faults_of_document():
            found = services.compare_document(document, **given)
        return Response(as_dict(selectors.difference_row(found)))


class ClusterDocumentView(InputMixin):
    @extend_schema(
        operation_id="cluster_document_retrieve", parameters=[ExportQuery], responses={200: OpenApiTypes.OBJECT}
    )
    def get(self, request: Request) -> Response:
        """The current topics, ACLs, quotas, routes, users, broker configs and role bindings as a document, without secrets."""
        return Response(selectors.export(**self.query(ExportQuery)))
