"""Problems of workers, Kafka Connect and its connectors: the seconds of silence, the failed tasks."""

from __future__ import annotations

from controlplane.domain.alert import alerts
from controlplane.domain.alert_types import AlertFacts, ConnectFacts
from controlplane.domain.alert_worker_cases import (
    CONNECT_SILENT_S,
    CONNECTOR_ALERTS_MAX,
    SPARK_WORKER_SILENT_S,
    WORKER_SILENT_S,
    connect_silent,
    connectors_failed,
    spark_worker_silent,
    worker_silent,
)
from controlplane.domain.connect import ConnectorFailure


def test_a_silent_program_is_a_problem_from_its_limit_on() -> None:
    def facts_of_silent_workers(seconds: float) -> AlertFacts:
        return AlertFacts(
            worker_silent_s=seconds,
            spark_worker_silent_s=seconds,
            spark_jobs_waiting=(1, ("forecast",)),
            connect=(ConnectFacts("etl", silent_s=seconds, problem="connection refused"),),
        )

    for cases, limit_s in (
        (worker_silent, WORKER_SILENT_S),
        (spark_worker_silent, SPARK_WORKER_SILENT_S),
        (connect_silent, CONNECT_SILENT_S),
    ):
        assert len(cases(facts_of_silent_workers(limit_s))) == 1 and cases(facts_of_silent_workers(limit_s - 0.1)) == []
    assert worker_silent(AlertFacts()) == spark_worker_silent(AlertFacts()) == []


def test_the_waiting_spark_jobs_are_named() -> None:
    waiting = AlertFacts(spark_worker_silent_s=SPARK_WORKER_SILENT_S, spark_jobs_waiting=(3, ("forecast", 7)))
    (alert,) = alerts(waiting)
    assert alert.text.endswith("3 jobs (forecast, archive 7 and 1 more).")


def test_a_problem_of_another_program_ends_with_one_full_stop() -> None:
    for problem in ("connection refused", "connection refused."):
        (alert,) = alerts(AlertFacts(connect=(ConnectFacts("etl", silent_s=60, problem=problem),)))
        assert "connection refused." in alert.text and ".." not in alert.text


def test_failed_connectors_are_limited_over_all_clusters() -> None:
    failures = tuple(ConnectorFailure(f"c{n}", True, 1, []) for n in range(CONNECTOR_ALERTS_MAX))
    found = connectors_failed(AlertFacts(connect=(ConnectFacts("a", failures), ConnectFacts("b", failures))))
    assert len(found) == CONNECTOR_ALERTS_MAX and {c.words["cluster"] for c in found} == {"a"}
