"""Clients that brokers reject continuously, from the rows of the brokers.

Does not contain: the texts of their alerts (`controlplane.domain.alert_client_cases`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from django.utils import timezone

from brokerd.cluster.rejection_reasons import RejectionReason
from controlplane.domain import alert_types as types
from controlplane.domain.alert_client_cases import rejected_client_name
from controlplane.domain.alert_thresholds import AlertThresholds, ThresholdName
from controlplane.domain.broker_metrics import StoredRejectedClient
from controlplane.models import Broker

REJECTED_ALERTS_MAX = 20
"""Maximum number of alerts about rejected clients: any client may connect and be rejected."""

STEADY_MS = 120_000
"""A client that is rejected for this time has an alert. A rotated password or a new ACL causes some rejections."""


def rejected_clients(thresholds: AlertThresholds) -> tuple[types.RejectedClientFacts, ...]:
    """Clients that brokers have rejected continuously for STEADY_MS, the highest rates first. All connections of a principal count as one client."""
    now_ms, found = timezone.now().timestamp() * 1000, dict[tuple[str, str], list[StoredRejectedClient]]()
    for rows in Broker.objects.exclude(refused_clients=[]).values_list("refused_clients", flat=True):
        for row in rows:
            found.setdefault((rejected_client_name(row["principal"], row["host"]), row["reason"]), []).append(row)
    facts = []
    for (who, reason), rows in found.items():
        since_ms, per_min = min(r["since_ms"] for r in rows), sum(r["per_min"] for r in rows)
        if now_ms - since_ms >= STEADY_MS and per_min >= thresholds[ThresholdName.CLIENT_REJECTED]:
            first = min(rows, key=lambda r: (r["since_ms"], r["host"], r["client_id"]))
            facts.append(
                types.RejectedClientFacts(
                    client=who,
                    reason=RejectionReason(reason),
                    per_min=per_min,
                    host=first["host"],
                    client_id=first["client_id"],
                    operation=first["operation"],
                    resource_type=first["resource_type"],
                    resource_name=first["resource_name"],
                    logins=_logins(rows),
                )
            )
    return tuple(sorted(facts, key=lambda f: (-f.per_min, f.client, f.reason))[:REJECTED_ALERTS_MAX])


def _logins(rows: Iterable[StoredRejectedClient]) -> tuple[types.FailedLoginFacts, ...]:
    """The failed logins of these rows, the most frequent first. Numbers with the same power of two count as equal: the text of an alert must not change with
    each attempt."""
    counts: Counter[types.FailedLoginFacts] = Counter()
    for row in rows:
        for x in row.get("logins", ()):
            counts[types.FailedLoginFacts(x["user"], x["mechanism"], x["failure"])] += x["count"]
    return tuple(sorted(counts, key=lambda x: (-counts[x].bit_length(), x.user, x.mechanism, x.failure)))
