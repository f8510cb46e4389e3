"""Lists of transactions and one transactional id: bounded requests, and silent brokers by name."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from controlplane.domain.transactions import DescribedTransaction
from controlplane.selectors import transactions as selectors
from tests.unit.controlplane.transaction_responses import HANGING, TransactionResponses, patch_responses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch) -> TransactionResponses:
    return patch_responses(monkeypatch, World())


def described_transaction(
    name: str, producer_id: int, state: str = "Ongoing", age_s: float = 90
) -> DescribedTransaction:
    started = time.time_ns() // 1_000_000 - int(age_s * 1000) if state == "Ongoing" else None
    partitions = (("orders", 1),) if state == "Ongoing" else ()
    return DescribedTransaction(name, state, producer_id, 2, 60_000, started, partitions)


def test_a_page_describes_only_its_own_rows(responses: TransactionResponses) -> None:
    responses.coordinators = {
        1: [described_transaction(f"a{n}", n) for n in range(5)],
        3: [described_transaction("b", 9, "Empty")],
    }
    page = selectors.transaction_list(sort="-producer_id", per_page=2)
    assert (page.total, page.pages, [r.transactional_id for r in page.rows]) == (6, 3, ["b", "a4"])
    assert (page.rows[0].open_s, page.rows[0].coordinator) == (None, 3) and page.rows[1].partitions == ["orders-1"]
    assert 89 < (page.rows[1].open_s or 0) < 150 and page.rows[1].timeout_ms == 60_000
    assert sorted(responses.requests[:3]) == [("list", 1), ("list", 2), ("list", 3)]
    assert sorted(responses.requests[3:]) == [("describe", 1), ("describe", 3)]
    assert (page.brokers_responded, page.brokers_asked, page.first, page.last) == (3, 3, 1, 2)


def test_filters(responses: TransactionResponses) -> None:
    responses.coordinators = {1: [described_transaction("Alpha", 1), described_transaction("beta", 2, "CompleteAbort")]}
    for options, names in (
        ({"query": "ALPH"}, ["Alpha"]),
        ({"state": "open"}, ["Alpha"]),
        ({"state": "CompleteAbort"}, ["beta"]),
        ({"open_longer_minutes": 1}, ["Alpha"]),
        ({"state": "CompleteAbort", "open_longer_minutes": 1}, []),
        ({"sort": "nonsense"}, ["Alpha", "beta"]),
    ):
        assert [r.transactional_id for r in selectors.transaction_list(**options).rows] == names, options  # type: ignore[arg-type]


def test_silent_brokers_and_offline_coordinators_are_named(responses: TransactionResponses) -> None:
    responses.world.offline("__transaction_state", 0)
    responses.world.project()
    responses.coordinators, responses.silent = (
        {1: [described_transaction("a", 1)], 2: [described_transaction("b", 2)]},
        {2},
    )
    page = selectors.transaction_list()
    assert [r.transactional_id for r in page.rows] == ["a"] and (page.brokers_responded, page.brokers_asked) == (2, 3)
    assert [(s.broker_id, s.problem) for s in page.brokers_silent] == [(2, "it is frozen")]
    assert page.offline_partitions == 1


def test_one_transactional_id_has_the_first_offset_in_each_partition(responses: TransactionResponses) -> None:
    responses.coordinators, responses.open = {3: [described_transaction("a", 4711)]}, {2: [HANGING]}
    found = selectors.transaction("a")
    assert found.row is not None and (found.row.coordinator, found.partition_count) == (3, 1)
    assert [(p.topic, p.index, p.leader, p.start_offset) for p in found.partitions] == [("orders", 1, 2, 1234)]
    assert found.started_at is not None and found.partitions[0].last_timestamp is not None
    responses.silent = {2}
    assert selectors.transaction("a").partitions[0].start_offset is None
    assert selectors.transaction("nobody").row is None
    newer = replace(described_transaction("a", 5), producer_epoch=7)
    responses.coordinators[1] = [newer]
    both = selectors.transaction("a").row
    assert both is not None and both.producer_id == 5, "two coordinators during a move: the higher epoch is newer"


def test_the_brokers_are_asked_at_their_addresses() -> None:
    """No broker listens at these addresses: each is reported as silent, with the reason."""
    World()
    page = selectors.transaction_list()
    assert page.rows == [] and len(page.brokers_silent) == page.brokers_asked == 3
    assert all("does not respond" in s.problem for s in page.brokers_silent)
