"""Offset resets of consumer groups, and removal of members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import RowViewSet
from controlplane.domain.offset_reset_types import WAIT_MINUTES_MAX, ResetSpec, ResetTarget
from controlplane.models import ConsumerGroup, OffsetReset
from controlplane.models.change import Outcome
from controlplane.selectors import offset_resets as selectors
from controlplane.services import group_members
from controlplane.services import offset_resets as services

DETAIL = serializers.shape(selectors.OffsetResetDetail)
TARGETS = [t.value for t in ResetTarget if t is not ResetTarget.UNDO]


class ResetPartitionOffset(drf.Serializer[object]):
    topic = drf.CharField(max_length=249)
    partition = drf.IntegerField(min_value=0)
    offset = drf.IntegerField(min_value=0)


class ResetTopicPartition(drf.Serializer[object]):
    topic = drf.CharField(max_length=249)
    partition = drf.IntegerField(min_value=0)


class OffsetResetCreate(drf.Serializer[object]):
    group_id = drf.CharField(max_length=255, trim_whitespace=False)
    target = drf.ChoiceField(choices=TARGETS)
    topics = drf.ListField(
        child=drf.CharField(max_length=249),
        default=list,
        help_text="All partitions of these topics. Without topics and partitions: all with a committed offset.",
    )
    partitions = ResetTopicPartition(many=True, default=list)
    time_ms = drf.IntegerField(default=None, allow_null=True, help_text="For the target `time`: ms since 1970.")
    offset = drf.IntegerField(default=None, allow_null=True, help_text="For the target `offset`.")
    shift = drf.IntegerField(
        default=None, allow_null=True, help_text="For the target `shift`: records, negative = back."
    )
    source_group = drf.CharField(
        default="", allow_blank=True, help_text="For the target `group`: offsets are copied from it."
    )
    offsets = ResetPartitionOffset(
        many=True, default=list, help_text="For the target `file`: an offset for each partition."
    )


class OffsetResetApply(serializers.RequiredComment):
    wait_minutes = drf.IntegerField(
        default=0,
        min_value=0,
        max_value=WAIT_MINUTES_MAX,
        help_text="While the group is active, wait so long for its members to leave. The reset is then computed again.",
    )


class MemberRemoval(serializers.RequiredComment):
    group_id = drf.CharField(max_length=255, trim_whitespace=False)
    member_id = drf.CharField(trim_whitespace=False, help_text="The member ID or group.instance.id.")


class OffsetResetViewSet(ListModelMixin, RetrieveModelMixin, RowViewSet):
    queryset = OffsetReset.objects.all()
    filterset_class = selectors.OffsetResetFilter
    page_of = staticmethod(selectors.reset_page)
    lookup_url_kwarg = "reset_id"
    noun = "offset reset"

    def get_serializer_class(self) -> type[serializers.RowSerializer]:
        return serializers.shape(selectors.OffsetResetRow if self.action == "list" else selectors.OffsetResetDetail)

    def get_row(self, key: int) -> selectors.OffsetResetDetail | None:
        return selectors.reset_detail(key)

    @extend_schema(request=OffsetResetCreate, responses={201: DETAIL})
    def create(self, request: Request) -> Response:
        """Preview a reset. Nothing is written to the group. The id is the token for apply."""
        body = self.body(OffsetResetCreate)
        row = services.preview(body.pop("group_id"), spec_of(body), actor=self.actor)
        return self._detail(row.pk, 201)

    @extend_schema(request=OffsetResetApply, responses={200: DETAIL, 202: DETAIL})
    @action(detail=True, methods=["post"])
    def apply(self, request: Request, reset_id: int) -> Response:
        """Apply a previewed reset. 409 if the group is active or an offset was committed since the preview (`reason` has the difference); 202 while it waits."""
        self._check_reset(reset_id)
        row = services.apply(reset_id, actor=self.actor, **self.body(OffsetResetApply))
        return self._detail(reset_id, 202 if row.finished_at is None else 200)

    @extend_schema(request=serializers.Comment)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, reset_id: int) -> Response:
        """Drop a preview, or end the wait of a reset."""
        self._check_reset(reset_id)
        services.cancel(reset_id, actor=self.actor, comment=self.body(serializers.Comment)["comment"])
        return self._detail(reset_id)

    @extend_schema(request=None, responses={201: DETAIL})
    @action(detail=True, methods=["post"])
    def preview(self, request: Request, reset_id: int) -> Response:
        """The same reset from the current offsets."""
        self._check_reset(reset_id)
        return self._detail(services.preview_again(reset_id, actor=self.actor).pk, 201)

    @extend_schema(request=None, responses={201: DETAIL})
    @action(detail=True, methods=["post"])
    def undo(self, request: Request, reset_id: int) -> Response:
        """The preview of the reverse reset, applied like any other."""
        self._check_reset(reset_id)
        return self._detail(services.undo(reset_id, actor=self.actor).pk, 201)

    def _check_reset(self, reset_id: int) -> None:
        if selectors.reset_row(reset_id) is None:
            raise Http404(f"There is no offset reset {reset_id}.")

    def _detail(self, reset_id: int, status: int = 200) -> Response:
        return Response(self.get_serializer(self.get_row(reset_id)).data, status=status)


class MemberRemovalViewSet(RowViewSet):
    queryset = ConsumerGroup.objects.none()
    serializer_class = MemberRemoval

    @extend_schema(request=MemberRemoval, responses={204: None, 202: None})
    def create(self, request: Request) -> Response:
        """Remove a member from a group. 202: the cluster did not respond in time, the outcome is unknown."""
        outcome = group_members.remove_member(actor=self.actor, **self.body(MemberRemoval))
        return Response(status=204 if outcome == Outcome.CONFIRMED else 202)


def spec_of(body: Mapping[str, Any]) -> ResetSpec:
    return ResetSpec(
        target=ResetTarget(body["target"]),
        topics=tuple(body["topics"]),
        partitions=tuple((p["topic"], p["partition"]) for p in body["partitions"]),
        time_ms=body["time_ms"],
        offset=body["offset"],
        shift=body["shift"],
        source_group=body["source_group"],
        offsets={(o["topic"], o["partition"]): o["offset"] for o in body["offsets"]},
    )
