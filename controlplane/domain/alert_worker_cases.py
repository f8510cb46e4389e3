"""Problems of workers, workers of Spark jobs, Kafka Connect clusters and their connectors, by kind of alert, with the values for the placeholders of its
texts. Pure.

Does not contain: the texts, and the severity of a kind (`alert`).
"""

from __future__ import annotations

from controlplane.domain.alert_cases import SUBJECT_CHARS_MAX, counted_case, names_of, single_case, with_full_stop
from controlplane.domain.alert_phrases import AlertPhrase
from controlplane.domain.alert_types import NAMES_MAX, AlertCase, AlertFacts
from controlplane.domain.connect import ConnectorFailure
from weir_common.phrases import Phrase

CONNECT_SILENT_S = 25.0
"""A Connect cluster without a response for this time, which are three requests, has an alert. One missed response may be a restart of its workers."""

CONNECTOR_ALERTS_MAX = 50
"""Maximum number of alerts about connectors, over all clusters."""


WORKER_SILENT_S = 60.0
"""A worker without a poll for this time has an alert. It polls each second; a step that waits for a broker, or a restart, takes less time."""


SPARK_WORKER_SILENT_S = 120.0
"""Unfinished Spark jobs without a poll for this time have an alert. A worker that takes over the lease of another machine needs half a minute, and then
starts."""


def worker_silent(facts: AlertFacts) -> list[AlertCase]:
    return single_case(facts.worker_silent_s is not None and facts.worker_silent_s >= WORKER_SILENT_S)


def spark_worker_silent(facts: AlertFacts) -> list[AlertCase]:
    if facts.spark_worker_silent_s is None or facts.spark_worker_silent_s < SPARK_WORKER_SILENT_S:
        return []
    count, jobs = facts.spark_jobs_waiting
    names = [name if isinstance(name, str) else Phrase(AlertPhrase.ARCHIVE, {"id": f"{name}"}) for name in jobs]
    return counted_case((count, names), AlertPhrase.JOBS)


def connector_subject(cluster: str, connector: str) -> str:
    return f"{cluster}: {connector}"[:SUBJECT_CHARS_MAX]


def connectors_failed(facts: AlertFacts) -> list[AlertCase]:
    """Failed connectors. For a cluster that does not respond, those of its last response: a worker that stops does not repair a task."""
    failures = [(c.cluster, f) for c in facts.connect for f in c.failures][:CONNECTOR_ALERTS_MAX]
    return [
        AlertCase(
            connector_subject(cluster, f.name),
            {"connector": f.name, "cluster": cluster, "failure": _failed_parts(f)},
        )
        for cluster, f in failures
    ]


def _failed_parts(f: ConnectorFailure) -> Phrase:
    if not f.failed_tasks:
        return Phrase(AlertPhrase.CONNECTOR_FAILED)
    ids = names_of([str(n) for n in f.failed_tasks[:NAMES_MAX]], len(f.failed_tasks))
    one, many = AlertPhrase.TASKS_AND_CONNECTOR if f.has_failed else AlertPhrase.TASKS
    return Phrase(
        one, {"failed": f"{len(f.failed_tasks):,}", "tasks": f"{f.tasks:,}", "ids": ids}, many, len(f.failed_tasks)
    )


def connect_silent(facts: AlertFacts) -> list[AlertCase]:
    return [
        AlertCase(c.cluster, {"cluster": c.cluster, "problem": with_full_stop(c.problem)})
        for c in facts.connect
        if c.silent_s is not None and c.silent_s >= CONNECT_SILENT_S
    ]
