"""The search for hanging transactions: its verdicts, and the report of brokers that did not respond."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.models import ObservedPartition
from controlplane.selectors import hanging_transactions
from controlplane.selectors import transactions as selectors
from tests.unit.controlplane.selectors.test_transactions import described_transaction
from tests.unit.controlplane.transaction_responses import HANGING, TransactionResponses, patch_responses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch) -> TransactionResponses:
    return patch_responses(monkeypatch, World())


def test_a_search_finds_transactions_that_no_coordinator_has(responses: TransactionResponses) -> None:
    responses.open = {2: [HANGING, replace(HANGING, producer_id=5, start_offset=1300)]}
    responses.coordinators = {1: [described_transaction("known", 5)]}
    scan = hanging_transactions.search("orders")
    assert [(r.producer_id, r.verdict, r.target) for r in scan.rows] == [(4711, "unknown_producer", "orders-1@1234")]
    assert (scan.partitions, scan.partitions_described, scan.open_count) == (2, 2, 2)
    assert scan.timeout_ms_max == 900_000 and scan.brokers_silent == []
    assert hanging_transactions.search("orders", 0).rows == []
    assert [r.verdict for r in hanging_transactions.search("orders", 1, 1300).rows] == ["active"]
    assert hanging_transactions.search("nothing").partitions == 0


def test_without_every_coordinator_nothing_is_called_hanging(responses: TransactionResponses) -> None:
    responses.open, responses.silent = {2: [HANGING]}, {3}
    scan = hanging_transactions.search()
    assert [r.verdict for r in scan.rows] == ["undetermined"]
    assert [s.broker_id for s in scan.brokers_silent] == [3] and scan.brokers_asked == 3


def test_a_coordinator_that_moves_is_not_taken_for_one_without_the_id(responses: TransactionResponses) -> None:
    """All brokers answer, but the new leader of a partition of __transaction_state has not loaded it."""
    responses.open, responses.unclaimed = {2: [HANGING]}, {1}
    scan = hanging_transactions.search("orders")
    assert ([r.verdict for r in scan.rows], scan.brokers_silent) == (["undetermined"], [])
    responses.unclaimed = set()
    assert [r.verdict for r in hanging_transactions.search("orders").rows] == ["unknown_producer"]
    ObservedPartition.objects.filter(topic__name="__transaction_state").delete()
    assert [r.verdict for r in hanging_transactions.search("orders").rows] == ["undetermined"]


def test_of_two_coordinators_the_one_with_the_open_transaction_counts(responses: TransactionResponses) -> None:
    responses.open = {2: [HANGING]}
    responses.coordinators = {
        1: [described_transaction("a", 4711)],
        2: [described_transaction("a", 4711, "CompleteAbort")],
    }
    assert hanging_transactions.search("orders").rows == []


def test_a_transaction_that_ends_during_the_search_does_not_hang(
    responses: TransactionResponses, monkeypatch: pytest.MonkeyPatch
) -> None:
    responses.open = {2: [HANGING]}
    listed = responses.list

    def end_and_list(*given: object, **more: object) -> object:
        responses.open = {2: []}
        return listed(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(hanging_transactions.client, "list_transactions", end_and_list)
    scan = hanging_transactions.search("orders")
    assert scan.rows == [] and scan.open_count == 1


def test_a_search_has_a_limit_and_reports_the_omitted_partitions(
    responses: TransactionResponses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hanging_transactions, "SCANNED_PARTITIONS_MAX", 1)
    scan = hanging_transactions.search("orders")
    assert (scan.partitions, scan.partitions_described, scan.partitions_skipped) == (2, 1, 1)


def test_one_partition_is_read_from_its_leader(responses: TransactionResponses) -> None:
    responses.open = {2: [HANGING]}
    assert hanging_transactions.open_in_partition("orders", 1, 1234) == HANGING
    assert hanging_transactions.open_in_partition("orders", 1, 1) is None
    responses.silent = {2}
    with pytest.raises(LookupError, match="frozen"):
        hanging_transactions.open_in_partition("orders", 1, 1234)
    with pytest.raises(LookupError, match="no leader"):
        hanging_transactions.open_in_partition("orders", 9, 1234)
    assert selectors.address_of_broker(9) is None
    address = selectors.address_of_broker(2)
    assert address is not None and address.port == 9002
