"""Approval requests of one operator, which another operator decides."""

from __future__ import annotations

from typing import Unpack

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.models import Proposal
from controlplane.selectors.paging import Page, PageOptions
from controlplane.services import proposal_rows
from controlplane.services import proposals as services

PROPOSAL = serializers.shape(proposal_rows.ProposalRow)


class ProposalViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    queryset = Proposal.objects.all()
    serializer_class = PROPOSAL
    filterset_class = proposal_rows.ProposalFilter
    lookup_url_kwarg = "proposal_id"
    noun = "approval request"

    def get_row(self, key: int) -> proposal_rows.ProposalRow | None:
        return proposal_rows.proposal_row(key, self.actor)

    def page_of(self, rows: QuerySet[Proposal], **options: Unpack[PageOptions]) -> Page[proposal_rows.ProposalRow]:
        return proposal_rows.proposal_page(rows, self.actor, **options)

    @extend_schema(request=serializers.ProposalCreate, responses={201: PROPOSAL})
    def create(self, request: Request) -> Response:
        """Request approval to override a safety rule. The operation runs only after another operator has approved it."""
        row = services.propose(actor=self.actor, **self.body(serializers.ProposalCreate))
        return Response(self.get_serializer(self.get_row(row.pk)).data, status=201)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, proposal_id: int) -> Response:
        """Approve as the second person. The operation runs immediately; `state` and `detail` contain its outcome."""
        self.get_object()
        services.approve(proposal_id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return self.row()

    @extend_schema(request=serializers.RequiredComment)
    @action(detail=True, methods=["post"])
    def reject(self, request: Request, proposal_id: int) -> Response:
        """Reject an approval request. Its author withdraws it this way."""
        self.get_object()
        services.reject(proposal_id, actor=self.actor, comment=self.body(serializers.RequiredComment)["comment"])
        return self.row()
