"""Lists, one transactional id, and the search for hanging transactions: bounded requests, and silent brokers by name."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from controlplane.domain.transactions import DescribedTransaction
from controlplane.models import Partition
from controlplane.selectors import transactions as selectors
from tests.unit.controlplane.transaction_answers import HANGING, Answers, answering
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    return answering(monkeypatch, World())


def described(name: str, producer_id: int, state: str = "Ongoing", age_s: float = 90) -> DescribedTransaction:
    started = time.time_ns() // 1_000_000 - int(age_s * 1000) if state == "Ongoing" else None
    partitions = (("orders", 1),) if state == "Ongoing" else ()
    return DescribedTransaction(name, state, producer_id, 2, 60_000, started, partitions)


def test_a_page_describes_only_its_own_rows(answers: Answers) -> None:
    answers.coordinators = {1: [described(f"a{n}", n) for n in range(5)], 3: [described("b", 9, "Empty")]}
    page = selectors.transaction_list(sort="-producer_id", per_page=2)
    assert (page.total, page.pages, [r.transactional_id for r in page.rows]) == (6, 3, ["b", "a4"])
    assert (page.rows[0].open_s, page.rows[0].coordinator) == (None, 3) and page.rows[1].partitions == ["orders-1"]
    assert 89 < (page.rows[1].open_s or 0) < 150 and page.rows[1].timeout_ms == 60_000
    assert answers.requests == [("list", 1), ("list", 2), ("list", 3), ("describe", 3), ("describe", 1)] or sorted(
        answers.requests
    ) == [("describe", 1), ("describe", 3), ("list", 1), ("list", 2), ("list", 3)]
    assert (page.answered, page.brokers_asked, page.first, page.last) == (3, 3, 1, 2)


def test_filters(answers: Answers) -> None:
    answers.coordinators = {1: [described("Alpha", 1), described("beta", 2, "CompleteAbort")]}
    for options, names in (
        ({"query": "ALPH"}, ["Alpha"]),
        ({"state": "open"}, ["Alpha"]),
        ({"state": "CompleteAbort"}, ["beta"]),
        ({"open_longer_minutes": 1}, ["Alpha"]),
        ({"state": "CompleteAbort", "open_longer_minutes": 1}, []),
        ({"sort": "nonsense"}, ["Alpha", "beta"]),
    ):
        assert [r.transactional_id for r in selectors.transaction_list(**options).rows] == names, options  # type: ignore[arg-type]


def test_silent_brokers_and_offline_coordinators_are_named(answers: Answers) -> None:
    answers.world.offline("__transaction_state", 0)
    answers.world.look()
    answers.coordinators, answers.silent = {1: [described("a", 1)], 2: [described("b", 2)]}, {2}
    page = selectors.transaction_list()
    assert [r.transactional_id for r in page.rows] == ["a"] and (page.answered, page.brokers_asked) == (2, 3)
    assert [(s.broker_id, s.problem) for s in page.brokers_silent] == [(2, "it is frozen")]
    assert page.offline_partitions == 1


def test_one_transactional_id_has_the_first_offset_in_each_partition(answers: Answers) -> None:
    answers.coordinators, answers.open = {3: [described("a", 4711)]}, {2: [HANGING]}
    found = selectors.transaction("a")
    assert found.row is not None and (found.row.coordinator, found.partition_count) == (3, 1)
    assert [(p.topic, p.index, p.leader, p.start_offset) for p in found.partitions] == [("orders", 1, 2, 1234)]
    assert found.started_at is not None and found.partitions[0].last_timestamp is not None
    answers.silent = {2}
    assert selectors.transaction("a").partitions[0].start_offset is None
    assert selectors.transaction("nobody").row is None
    newer = replace(described("a", 5), producer_epoch=7)
    answers.coordinators[1] = [newer]
    both = selectors.transaction("a").row
    assert both is not None and both.producer_id == 5, "two coordinators during a move: the higher epoch is newer"


def test_a_search_finds_what_no_coordinator_explains(answers: Answers) -> None:
    answers.open = {2: [HANGING, replace(HANGING, producer_id=5, start_offset=1300)]}
    answers.coordinators = {1: [described("known", 5)]}
    scan = selectors.hanging_transactions("orders")
    assert [(r.producer_id, r.verdict, r.target) for r in scan.rows] == [(4711, "unknown_producer", "orders-1@1234")]
    assert (scan.partitions, scan.partitions_described, scan.open_count) == (2, 2, 2)
    assert scan.timeout_ms_max == 900_000 and scan.brokers_silent == []
    assert selectors.hanging_transactions("orders", 0).rows == []
    assert [r.verdict for r in selectors.hanging_transactions("orders", 1, 1300).rows] == ["active"]
    assert selectors.hanging_transactions("nothing").partitions == 0


def test_without_every_coordinator_nothing_is_called_hanging(answers: Answers) -> None:
    answers.open, answers.silent = {2: [HANGING]}, {3}
    scan = selectors.hanging_transactions()
    assert [r.verdict for r in scan.rows] == ["undetermined"]
    assert [s.broker_id for s in scan.brokers_silent] == [3] and scan.brokers_asked == 3


def test_a_coordinator_that_moves_is_not_taken_for_one_without_the_id(answers: Answers) -> None:
    """All brokers answer, but the new leader of a partition of __transaction_state has not loaded it."""
    answers.open, answers.unclaimed = {2: [HANGING]}, {1}
    scan = selectors.hanging_transactions("orders")
    assert ([r.verdict for r in scan.rows], scan.brokers_silent) == (["undetermined"], [])
    answers.unclaimed = set()
    assert [r.verdict for r in selectors.hanging_transactions("orders").rows] == ["unknown_producer"]
    Partition.objects.filter(topic__name="__transaction_state").delete()
    assert [r.verdict for r in selectors.hanging_transactions("orders").rows] == ["undetermined"]


def test_of_two_coordinators_the_one_with_the_open_transaction_counts(answers: Answers) -> None:
    answers.open = {2: [HANGING]}
    answers.coordinators = {1: [described("a", 4711)], 2: [described("a", 4711, "CompleteAbort")]}
    assert selectors.hanging_transactions("orders").rows == []


def test_a_transaction_that_ends_during_the_search_does_not_hang(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers.open = {2: [HANGING]}
    listed = answers.list

    def ends(*given: object, **more: object) -> object:
        answers.open = {2: []}
        return listed(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(selectors.client, "list_transactions", ends)
    scan = selectors.hanging_transactions("orders")
    assert scan.rows == [] and scan.open_count == 1


def test_a_search_has_a_limit_and_says_what_it_left_out(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "SCANNED_PARTITIONS_MAX", 1)
    scan = selectors.hanging_transactions("orders")
    assert (scan.partitions, scan.partitions_described, scan.partitions_skipped) == (2, 1, 1)


def test_one_partition_is_read_from_its_leader(answers: Answers) -> None:
    answers.open = {2: [HANGING]}
    assert selectors.open_in_partition("orders", 1, 1234) == HANGING
    assert selectors.open_in_partition("orders", 1, 1) is None
    answers.silent = {2}
    with pytest.raises(LookupError, match="frozen"):
        selectors.open_in_partition("orders", 1, 1234)
    with pytest.raises(LookupError, match="no leader"):
        selectors.open_in_partition("orders", 9, 1234)
    assert selectors.address_of_broker(9) is None
    address = selectors.address_of_broker(2)
    assert address is not None and address.port == 9002


def test_the_brokers_are_asked_at_their_addresses() -> None:
    """Nothing listens there: every broker is silent, with its reason."""
    World()
    page = selectors.transaction_list()
    assert page.rows == [] and len(page.brokers_silent) == page.brokers_asked == 3
    assert all("does not respond" in s.problem for s in page.brokers_silent)
