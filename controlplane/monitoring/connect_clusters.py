"""Reads the states of the connectors of all Kafka Connect clusters into rows, from which alerts are evaluated.

Invariants: the requests to all clusters run at the same time, so a round takes no longer than the time limit of one. A cluster that does not respond keeps the
failures of its last response. No row has a config or a trace: they may contain secrets. Does not contain: the requests (`clients.connectors`), which row is an
alert (`services.alert_facts`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from django.db import transaction
from django.utils import timezone

from controlplane.clients import connectors as api
from controlplane.clients.connect import ConnectClient, ConnectUnavailable, clients
from controlplane.domain.connect import ConnectorFailure, ConnectorState
from controlplane.models import ConnectCluster

ROUND_MS = 15_000
"""Milliseconds between the starts of two rounds. A worker lists all connectors with their configs, some kilobytes each."""

FAILURES_MAX = 200
"""Maximum number of failed connectors per cluster."""


def read_all() -> None:
    """Read all Connect clusters once. If the settings have none, only delete the rows of clusters that were configured earlier."""
    configured = clients()
    if not configured:
        ConnectCluster.objects.all().delete()
        return
    with ThreadPoolExecutor(len(configured), "connect-states") as pool:
        results = list(pool.map(_read_failures, configured))
    now = timezone.now()
    with transaction.atomic():
        ConnectCluster.objects.exclude(name__in=[c.name for c in configured]).delete()
        known = {row.name: row for row in ConnectCluster.objects.all()}
        for client, result in zip(configured, results, strict=True):
            row = known.get(client.name) or ConnectCluster(name=client.name)
            row.tried_at = now
            if isinstance(result, ConnectUnavailable):
                row.silent_since, row.problem = row.silent_since or now, str(result)[:300]
            else:
                row.silent_since, row.problem = None, ""
                row.failures = [asdict(f) for f in result[:FAILURES_MAX]]
            row.save()


def _read_failures(client: ConnectClient) -> list[ConnectorFailure] | ConnectUnavailable:
    """Sorted by name."""
    try:
        found = api.connectors(client)
    except ConnectUnavailable as error:
        return error
    failures = (
        ConnectorFailure(
            c.name,
            c.state is ConnectorState.FAILED,
            len(c.tasks),
            [t.id for t in c.tasks if t.state is ConnectorState.FAILED],
        )
        for c in found
    )
    return sorted((f for f in failures if f.has_failed or f.failed_tasks), key=lambda f: f.name)
