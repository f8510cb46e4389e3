"""Requests the overview from the other Weir consoles of the settings, and keeps the last responses in rows. One round for all viewers and web processes.

Invariants: the requests to all consoles run at the same time, so a round takes no longer than the time limit of one. A console that does not respond keeps the
values and the time of its last response, and gets the cause. Does not contain: the request (`clients.other_consoles`), what is shown
(`selectors.other_clusters`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from controlplane.clients.other_consoles import ConsoleUnreadable, read_metrics
from controlplane.domain.other_cluster import ClusterMetrics, ClusterProblem, OtherConsole
from controlplane.models import OtherCluster
from controlplane.monitoring import live_events
from controlplane.monitoring.hub import Hub

ROUND_MS = 10_000
"""Milliseconds between the starts of two rounds. Health words change with alerts, which are evaluated every few seconds."""


class OtherClusterReader:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def read_all(self) -> None:
        """Run one round. If the settings contain no other consoles, only the rows of former consoles are deleted, once."""
        consoles: tuple[OtherConsole, ...] = settings.OTHER_CONSOLES
        if not consoles:
            OtherCluster.objects.all().delete()
            return
        with ThreadPoolExecutor(len(consoles), "other-console") as pool:
            results = list(pool.map(_read_metrics, consoles))
        now = timezone.now()
        with transaction.atomic():
            OtherCluster.objects.exclude(name__in=[c.name for c in consoles]).delete()
            known = {row.name: row for row in OtherCluster.objects.all()}
            for console, result in zip(consoles, results, strict=True):
                row = known.get(console.name)
                if row is None or row.url != console.url:  # values from another address belong to another cluster
                    row = row or OtherCluster(name=console.name)
                    row.url, row.answered_at, row.metrics = console.url, None, None
                row.tried_at = now
                if isinstance(result, ClusterMetrics):
                    row.problem, row.detail = ClusterProblem.NONE, ""
                    row.answered_at, row.metrics = now, asdict(result)
                else:
                    row.problem, row.detail = result.problem, str(result)[:300]
                row.save()
        self._hub.publish(live_events.OTHER_CLUSTERS, {"clusters": len(consoles)})


def _read_metrics(console: OtherConsole) -> ClusterMetrics | ConsoleUnreadable:
    try:
        return read_metrics(console)
    except ConsoleUnreadable as unreadable:
        return unreadable
