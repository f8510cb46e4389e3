"""Health checks, their failures and scores; anomalies of metrics, and the switches of their alerts."""

from __future__ import annotations

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import serializers
from controlplane.api.pagination import PageFields, page_response, page_shape
from controlplane.api.viewsets import InputMixin
from controlplane.domain.anomaly import WATCHED_OF, AlertSwitch
from controlplane.domain.health import CheckName, CheckScope
from controlplane.selectors import anomalies as anomaly_selectors
from controlplane.selectors import health as selectors
from controlplane.selectors.paging import Page
from controlplane.services import anomalies

REPORT = serializers.shape(selectors.HealthReport)
FAILURES = page_shape(Page, name="HealthFailurePage", row=selectors.HealthFailureRow)
SCORES = page_shape(Page, name="HealthScorePage", row=selectors.HealthScoreRow)
ANOMALY = serializers.shape(anomaly_selectors.AnomalyRow)
METRIC = serializers.shape(anomaly_selectors.WatchedMetricRow)


class FailureQuery(PageFields):
    check = drf.ChoiceField(default="", allow_blank=True, choices=[(c.value, c.value) for c in CheckName])


class ScoreQuery(PageFields):
    scope = drf.ChoiceField(choices=[(s.value, s.value) for s in CheckScope])


class HealthView(InputMixin):
    @extend_schema(operation_id="health_checks_retrieve", responses={200: REPORT})
    def get(self, request: Request) -> Response:
        """All health checks with their last result, every 30 s, and the score of the cluster. Limits with a `threshold` are changed under
        alert-thresholds."""
        return Response(REPORT(selectors.health_report()).data)


class HealthFailuresView(InputMixin):
    @extend_schema(parameters=[FailureQuery], responses={200: FAILURES})
    def get(self, request: Request) -> Response:
        """Objects that fail a check, those that last longest first. Of each check the worst 200 are listed."""
        given = self.query(FailureQuery)
        return page_response(request, selectors.failure_list(**given))


class HealthScoresView(InputMixin):
    @extend_schema(parameters=[ScoreQuery], responses={200: SCORES})
    def get(self, request: Request) -> Response:
        """Brokers, topics or groups that fail a check, the lowest score first. All others have 100."""
        return page_response(request, selectors.score_list(**self.query(ScoreQuery)))


class AnomaliesView(InputMixin):
    @extend_schema(operation_id="anomalies_list", responses={200: ANOMALY(many=True)})
    def get(self, request: Request) -> Response:
        """Metrics that are far from their usual value now, the most distant first."""
        return Response(ANOMALY(anomaly_selectors.anomaly_list(), many=True).data)


class WatchedMetricsView(InputMixin):
    @extend_schema(responses={200: METRIC(many=True)})
    def get(self, request: Request) -> Response:
        """The metrics that are compared with their history, and whether their anomalies have alerts."""
        return Response(METRIC(anomaly_selectors.watched_metrics(), many=True).data)


class AnomalySwitchView(InputMixin):
    @extend_schema(request=serializers.Comment, responses={200: METRIC})
    def post(self, request: Request, name: str, verb: str) -> Response:
        """Turn the alerts about anomalies of a metric `on` or `off`. The metric is compared and listed in both cases."""
        if name not in WATCHED_OF or verb not in list(AlertSwitch):
            raise Http404(f"There is no watched metric {name!r} with the operation {verb!r}. Operations: on, off.")
        anomalies.switch_alerts(
            name, verb == AlertSwitch.ON, actor=self.actor, comment=self.body(serializers.Comment)["comment"]
        )
        row = next(r for r in anomaly_selectors.watched_metrics() if r.name == name)
        return Response(METRIC(row).data)
