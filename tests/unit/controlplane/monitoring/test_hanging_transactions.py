"""The periodic search for hanging transactions: creation and deletion of rows, and the requests to brokers."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.utils import timezone

from controlplane.domain.transactions import DescribedTransaction, PartitionTransaction
from controlplane.models import Alert, ConsumerGroup, GroupPartition, HangingTransaction, ObservedPartition
from controlplane.monitoring import hanging_transactions as module
from controlplane.monitoring.hanging_transactions import OPEN_MS_MIN, SEARCH_MS, HangingTransactionMonitor
from controlplane.selectors import alerts as alert_selectors
from controlplane.selectors.next_steps import next_steps
from controlplane.services import alerts
from tests.unit.controlplane.transaction_responses import HANGING, TransactionResponses, patch_responses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch) -> TransactionResponses:
    return patch_responses(monkeypatch, World())


def search_twice(monitor: HangingTransactionMonitor) -> None:
    monitor.search(0)
    monitor.search(OPEN_MS_MIN)


def rows() -> list[tuple[str, str]]:
    return [(str(row), row.verdict) for row in HangingTransaction.objects.all()]


def test_a_transaction_that_hangs_in_two_searches_is_a_row_until_its_abort(responses: TransactionResponses) -> None:
    responses.open[2] = [HANGING]
    monitor = HangingTransactionMonitor(0)
    monitor.search(0)
    assert rows() == [] and {kind for kind, _ in responses.requests} == {"scan"}, "no coordinator is asked at once"
    monitor.search(OPEN_MS_MIN - 1)
    assert rows() == []
    monitor.search(OPEN_MS_MIN)
    assert rows() == [("orders-1@1234", "unknown_producer")]
    found_at = HangingTransaction.objects.get().found_at
    monitor.search(OPEN_MS_MIN + SEARCH_MS)
    assert HangingTransaction.objects.get().found_at == found_at
    responses.open[2] = []
    monitor.search(OPEN_MS_MIN + 2 * SEARCH_MS)
    assert rows() == []


def test_an_open_transaction_that_its_coordinator_ends_is_no_row(responses: TransactionResponses) -> None:
    started = time.time_ns() // 1_000_000
    known = DescribedTransaction("app", "Ongoing", HANGING.producer_id, 2, 60_000, started, (HANGING.partition,))
    responses.open[2], responses.coordinators[1] = [HANGING], [known]
    search_twice(HangingTransactionMonitor(0))
    assert rows() == []


def test_successive_short_transactions_are_never_judged(responses: TransactionResponses) -> None:
    monitor = HangingTransactionMonitor(0)
    for n in range(5):
        responses.open[2] = [replace(HANGING, start_offset=n)]
        monitor.search(n * OPEN_MS_MIN)
    assert rows() == [] and {kind for kind, _ in responses.requests} == {"scan"}
    assert len(monitor._open_since_ms) == 1, "ended transactions are forgotten"


def silence_leader(responses: TransactionResponses) -> None:
    responses.silent = {2}


def silence_coordinator(responses: TransactionResponses) -> None:
    responses.silent = {3}


def move_coordinator(responses: TransactionResponses) -> None:
    responses.unclaimed = {0}


@pytest.mark.parametrize("fault", [silence_leader, silence_coordinator, move_coordinator])
def test_without_every_response_no_row_begins_and_no_row_ends(
    responses: TransactionResponses, fault: Callable[[TransactionResponses], None]
) -> None:
    responses.open[2] = [HANGING]
    fault(responses)
    search_twice(HangingTransactionMonitor(0))
    assert rows() == []
    responses.silent, responses.unclaimed = set(), set()
    monitor = HangingTransactionMonitor(0)
    search_twice(monitor)
    fault(responses)
    monitor.search(3 * OPEN_MS_MIN)
    assert rows() == [("orders-1@1234", "unknown_producer")]


def test_a_restarted_monitor_continues_from_the_rows(responses: TransactionResponses) -> None:
    responses.open[2] = [HANGING]
    search_twice(HangingTransactionMonitor(0))
    responses.open[2] = []
    HangingTransactionMonitor(0).search(0)
    assert rows() == []


def test_a_search_has_a_limited_number_of_partitions_and_the_next_continues(
    responses: TransactionResponses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PARTITIONS_MAX", 2)
    asked: list[dict[int, Any]] = []
    choose = HangingTransactionMonitor._choose

    def choose_and_record(self: HangingTransactionMonitor, known: Any) -> Any:
        asked.append(choose(self, known))
        return asked[-1]

    monkeypatch.setattr(HangingTransactionMonitor, "_choose", choose_and_record)
    responses.open[2] = [HANGING]
    monitor = HangingTransactionMonitor(0)
    for n in range(8):
        monitor.search(n * OPEN_MS_MIN)
    spots = [{(t, i) for topics in a.values() for t, indexes in topics.items() for i in indexes} for a in asked]
    every = {("orders", 0), ("orders", 1), *(("__transaction_state", i) for i in range(3))}
    assert set.union(*spots[:3]) == every and all(len(s) <= 3 for s in spots)
    assert rows() == [("orders-1@1234", "unknown_producer")]
    assert all(("orders", 1) in s for s in spots[-3:]), "a partition with a row is in every search"


def test_rows_stay_when_the_topic_of_the_coordinators_is_lost(responses: TransactionResponses) -> None:
    responses.open[2] = [HANGING]
    search_twice(HangingTransactionMonitor(0))
    ObservedPartition.objects.filter(topic__name="__transaction_state").delete()
    HangingTransactionMonitor(0).search(0)
    assert rows() == [("orders-1@1234", "unknown_producer")]
    responses.open[2] = []
    HangingTransactionMonitor(0).search(0)
    assert rows() == []
    responses.requests.clear()
    HangingTransactionMonitor(0).search(0)
    assert not responses.requests, "without rows and coordinators no transaction was ever begun"


def test_a_row_ends_with_its_partition(responses: TransactionResponses) -> None:
    HangingTransaction.objects.create(
        topic="gone", partition=0, producer_id=1, start_offset=1, verdict="too_old", checked_at=timezone.now()
    )
    HangingTransactionMonitor(0).search(0)
    assert rows() == []


def test_one_search_runs_at_a_time_and_a_failed_one_is_repeated(
    responses: TransactionResponses, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Callable[[], None]] = []

    class Pool:
        def submit(self, call: Callable[..., None], *args: Any) -> Future[None]:
            started.append(lambda: call(*args))
            return Future()

    monkeypatch.setattr(module.connection, "close", lambda: None)
    monitor, pool = HangingTransactionMonitor(0), Pool()
    monitor.poll(pool, 0)  # type: ignore[arg-type]
    assert started == []
    for now_ms in (module.SEARCH_FIRST_MS, module.SEARCH_FIRST_MS + 2 * SEARCH_MS):
        monitor.poll(pool, now_ms)  # type: ignore[arg-type]
    assert len(started) == 1
    for error in (DatabaseError("locked"), RuntimeError("defect")):

        def fail(now_ms: int, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(monitor, "search", fail)
        started[-1]()
        monitor.poll(pool, 10**9 * len(started))  # type: ignore[arg-type]
    assert len(started) == 3


def test_a_hanging_transaction_is_an_alert_with_the_request_of_its_abort(responses: TransactionResponses) -> None:
    responses.open[2] = [HANGING]
    search_twice(HangingTransactionMonitor(0))
    alerts.evaluate()
    assert not Alert.objects.exists(), "not before the threshold"
    HangingTransaction.objects.update(found_at=timezone.now() - timedelta(seconds=61))
    alerts.evaluate()
    row = alert_selectors.alert_list().rows[0]
    assert (row.kind, row.severity) == ("transaction_hanging", "degraded")
    assert row.text == (
        "1 partition (orders-1) has a hanging transaction: read_committed consumers stop at its first record."
    )
    assert [(s.kind, s.target) for s in next_steps(row)] == [
        ("propose_abort", ["orders-1@1234"]),
        ("search_hanging", []),
    ]
    group = ConsumerGroup.objects.create(group_id="billing", status="blocked", observed_at=timezone.now())
    GroupPartition.objects.create(
        group=group, topic="orders", index=1, block="open_transaction", observed_at=timezone.now()
    )
    GroupPartition.objects.create(
        group=group, topic="orders", index=0, block="open_transaction", observed_at=timezone.now()
    )
    alerts.evaluate()
    row = alert_selectors.alert_list().rows[0]
    assert row.severity == "at_risk" and row.text.endswith("first record; 1 group waits there.")
    HangingTransaction.objects.all().delete()
    alerts.evaluate()
    assert alert_selectors.alert_list().rows == []


def test_two_transactions_of_one_partition_are_two_rows_and_one_partition(responses: TransactionResponses) -> None:
    other: PartitionTransaction = replace(HANGING, producer_id=9, start_offset=2_000)
    responses.open[2] = [HANGING, other]
    search_twice(HangingTransactionMonitor(0))
    assert [name for name, _ in rows()] == ["orders-1@1234", "orders-1@2000"]
    HangingTransaction.objects.update(found_at=timezone.now() - timedelta(days=1))
    alerts.evaluate()
    assert Alert.objects.get().text.startswith("1 partition (orders-1) has")
