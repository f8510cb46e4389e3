"""Last responses of other Weir consoles. Only the cluster monitor writes them (`monitoring.other_clusters`)."""

from __future__ import annotations

from django.db import models

from controlplane.domain.other_cluster import ClusterProblem
from controlplane.models.choices import choices


class OtherCluster(models.Model):
    """`metrics`: `domain.other_cluster.ClusterMetrics` of `answered_at`; null: the console has never answered. `problem`, `detail`: of the last request."""

    name = models.CharField(max_length=60, unique=True)
    url = models.CharField(max_length=500)
    tried_at = models.DateTimeField()
    answered_at = models.DateTimeField(null=True)
    problem = models.CharField(max_length=20, choices=choices(ClusterProblem))
    detail = models.CharField(max_length=300, default="", blank=True)
    metrics = models.JSONField(null=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.name
