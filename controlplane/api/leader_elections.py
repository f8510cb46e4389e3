"""Elections of preferred leaders. Unclean leader elections need an approval request (`/proposals`, kind election.unclean)."""

from __future__ import annotations

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.viewsets import InputMixin
from controlplane.models.change import Outcome
from controlplane.selectors import leader_elections as selectors
from controlplane.services import leader_elections as services

ELECTION = serializers.shape(services.PreferredElection)
PREVIEW = serializers.shape(selectors.ElectionPreview)


class ElectionScope(drf.Serializer[object]):
    topic = drf.CharField(default="", allow_blank=True, help_text="Only partitions of this topic; default: all topics.")
    partition = drf.IntegerField(default=None, allow_null=True, min_value=0, help_text="Only this partition.")

    def validate(self, attrs: dict[str, object]) -> dict[str, object]:
        if attrs["partition"] is not None and not attrs["topic"]:
            raise drf.ValidationError({"topic": ["Name the topic of the partition."]})
        return attrs


class ElectionStart(ElectionScope, serializers.Comment):
    pass


class LeaderElectionView(InputMixin):
    @extend_schema(parameters=[ElectionScope], responses={200: PREVIEW})
    def get(self, request: Request) -> Response:
        """The partitions that are not led by their preferred replica, and for each whether an election would change its leader, or why not."""
        return Response(PREVIEW(_preview(**self.query(ElectionScope))).data)

    @extend_schema(request=ElectionStart, responses={200: ELECTION, 202: ELECTION})
    def post(self, request: Request) -> Response:
        """Elect the preferred leaders. Each partition has an outcome, confirmed by a broker that reports the new leader. 202: the outcome of at least
        one partition is unknown. 409: no preferred leader can be elected."""
        v = self.body(ElectionStart)
        _preview(v["topic"], v["partition"])
        result = services.elect_preferred_leaders(v["topic"], v["partition"], actor=self.actor, comment=v["comment"])
        return Response(ELECTION(result).data, status=202 if result.outcome == Outcome.UNKNOWN else 200)


def _preview(topic: str, partition: int | None) -> selectors.ElectionPreview:
    found = selectors.election_preview(topic, partition)
    if found is None:
        name = topic if partition is None else f"{topic}-{partition}"
        raise Http404(f"There is no topic or partition {name!r}.")
    return found
