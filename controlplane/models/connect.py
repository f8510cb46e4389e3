"""Last responses of Kafka Connect clusters. Only the cluster monitor writes them (`monitoring.connect_clusters`)."""

from __future__ import annotations

from django.db import models


class ConnectCluster(models.Model):
    """`tried_at`: of the last request. `silent_since`: the first of the requests without a response; null: the last one was answered. `problem`: why there was
    no response. `failures`: `domain.connect.ConnectorFailure` of each connector that has failed or has failed tasks, as of the last response."""

    name = models.CharField(max_length=200, unique=True)
    tried_at = models.DateTimeField()
    silent_since = models.DateTimeField(null=True)
    problem = models.CharField(max_length=300, default="", blank=True)
    failures = models.JSONField(default=list)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.name
