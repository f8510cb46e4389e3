"""Masking rules: list, create, delete. Only administrators change them."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.masking import MaskTarget
from controlplane.models import MaskingRule
from controlplane.selectors import masking
from controlplane.services import masking as services

RULE = serializers.shape(masking.MaskingRuleRow)


class MaskingRuleCreate(serializers.Comment):
    topics = drf.CharField(help_text="Name of a topic, with * for any characters.")
    target = drf.ChoiceField(choices=[(t.value, t.value) for t in MaskTarget])
    field = drf.CharField(
        default="", allow_blank=True, help_text="JSON path ($.customer.card) or name of a header; empty: the whole."
    )


class MaskingRuleViewSet(ListModelMixin, RowViewSet):
    queryset = MaskingRule.objects.all()
    serializer_class = RULE
    filterset_class = masking.MaskingRuleFilter
    page_of = staticmethod(masking.rule_page)
    ordering = "topics"
    lookup_url_kwarg = "rule_id"
    noun = "masking rule"

    @extend_schema(request=MaskingRuleCreate, responses={201: RULE})
    def create(self, request: Request) -> Response:
        """Hide a part of records from viewers. Needs an administrator."""
        values = self.body(MaskingRuleCreate)
        services.check_administrator(request.user, AuditOperation.MASKING_CREATE, values["topics"])
        row = services.create_rule(actor=self.actor, **values)
        return Response(self.get_serializer(masking.rule_shape(row)).data, status=201)

    @extend_schema(request=serializers.RequiredComment, responses={204: None})
    def destroy(self, request: Request, rule_id: int) -> Response:
        """Delete a masking rule. Viewers then see the field. Needs an administrator."""
        services.check_administrator(request.user, AuditOperation.MASKING_DELETE, str(rule_id))
        services.delete_rule(rule_id, actor=self.actor, comment=self.body(serializers.RequiredComment)["comment"])
        return Response(status=204)
