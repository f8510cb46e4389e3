"""Self-healing: actions with their settings, and their runs."""

from __future__ import annotations

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.pagination import PageFields, page_response, page_shape
from controlplane.api.viewsets import InputMixin
from controlplane.domain.healing import COOL_DOWN_S_MAX, COOL_DOWN_S_MIN, PER_HOUR_MAX, HealingMode
from controlplane.selectors import healing as selectors
from controlplane.selectors.paging import Page
from controlplane.services import healing

ACTION = serializers.shape(selectors.HealingActionRow)
RUNS = page_shape(Page, name="HealingRunPage", row=selectors.HealingRunRow)


class HealingChange(drf.Serializer[object]):
    mode = drf.ChoiceField(choices=[(m.value, m.value) for m in HealingMode])
    cool_down_s = drf.IntegerField(
        default=None,
        allow_null=True,
        min_value=COOL_DOWN_S_MIN,
        max_value=COOL_DOWN_S_MAX,
        help_text="Null: unchanged.",
    )
    per_hour = drf.IntegerField(
        default=None, allow_null=True, min_value=1, max_value=PER_HOUR_MAX, help_text="Null: unchanged."
    )
    comment = drf.CharField(default="", allow_blank=True)


class HealingActionsView(InputMixin):
    @extend_schema(operation_id="healing_actions_list", responses={200: ACTION(many=True)})
    def get(self, request: Request) -> Response:
        """The actions of self-healing with their mode and limits. All are off until an operator changes them."""
        return Response(ACTION(selectors.healing_actions(), many=True).data)


class HealingActionView(InputMixin):
    @extend_schema(request=HealingChange, responses={200: ACTION})
    def patch(self, request: Request, action: str) -> Response:
        """Change mode and limits of an action: `off`, `dry_run` (only records what it would do) or `on`."""
        if selectors.healing_action(action) is None:
            raise Http404(f"There is no action {action!r}.")
        healing.alter_action(action, **self.body(HealingChange), actor=self.actor)
        return Response(ACTION(selectors.healing_action(action)).data)


class HealingRunsView(InputMixin):
    @extend_schema(parameters=[PageFields], responses={200: RUNS})
    def get(self, request: Request) -> Response:
        """The runs of the actions, the newest first, with dry runs. Runs are kept for 30 days."""
        return page_response(request, selectors.healing_runs(**self.query(PageFields)))
