"""Anomalies of metrics, and which metrics have alerts about them. The monitor writes anomalies, services write switches."""

from __future__ import annotations

from django.db import models

from controlplane.domain.anomaly import AnomalyState, Baseline
from controlplane.models.choices import choices


class Anomaly(models.Model):
    """A metric that is unusual now, confirmed or not (`anomaly.CONFIRMED_S`). `subject` and `metric`: as in `HistorySeries`. `usual`: the median of `values`
    earlier values."""

    subject = models.CharField(max_length=300)
    metric = models.CharField(max_length=40)
    state = models.CharField(max_length=20, choices=choices(AnomalyState))
    value = models.FloatField()
    usual = models.FloatField()
    distance = models.FloatField(help_text="From the usual value, in median absolute deviations.")
    baseline = models.CharField(max_length=10, choices=choices(Baseline))
    values = models.PositiveIntegerField()
    since = models.DateTimeField()
    checked_at = models.DateTimeField()

    class Meta:
        ordering = ["-since", "id"]
        constraints = [models.UniqueConstraint(fields=["subject", "metric"], name="one_row_per_anomaly")]

    def __str__(self) -> str:
        return f"{self.metric} of {self.subject} is {self.state}"


class AnomalySwitch(models.Model):
    """Choice of an operator: anomalies of a metric (`anomaly.WatchedMetric.name`) have alerts or not. A metric without a row has the default."""

    name = models.CharField(max_length=60, primary_key=True)
    alerts = models.BooleanField()
    changed_at = models.DateTimeField(auto_now=True)
    changed_by = models.CharField(max_length=150)

    def __str__(self) -> str:
        return f"{self.name} {'on' if self.alerts else 'off'}"
