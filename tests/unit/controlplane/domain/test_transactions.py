"""Detection of hanging transactions in a partition, and the name of such a transaction in a proposal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from brokerd.coordinator.shard import partition_of
from controlplane.domain.transactions import (
    DescribedTransaction,
    PartitionTransaction,
    TransactionVerdict,
    coordinator_partition,
    parse_target,
    probe_ids,
    verdict,
)

FOUND = PartitionTransaction("orders", 3, 1, 4711, 2, 0, 1234, 1_000)
KNOWN = DescribedTransaction("billing", "Ongoing", 4711, 2, 60_000, 1_000, (("orders", 3), ("orders", 4)))
LIMIT_MS = 900_000


@pytest.mark.parametrize(
    ("known", "all_responded", "now_ms", "expected"),
    [
        (KNOWN, True, 2_000, TransactionVerdict.ACTIVE),
        (KNOWN, False, 2_000, TransactionVerdict.ACTIVE),
        (KNOWN, True, 1_000 + LIMIT_MS, TransactionVerdict.ACTIVE),
        (KNOWN, True, 1_001 + LIMIT_MS, TransactionVerdict.TOO_OLD),
        (replace(KNOWN, state="PrepareAbort"), True, 1_001 + LIMIT_MS, TransactionVerdict.TOO_OLD),
        (replace(KNOWN, state="PrepareCommit"), True, 2_000, TransactionVerdict.ACTIVE),
        (replace(KNOWN, partitions=(("orders", 4),)), True, 2_000, TransactionVerdict.NOT_IN_TRANSACTION),
        (replace(KNOWN, state="CompleteAbort"), True, 2_000, TransactionVerdict.NOT_IN_TRANSACTION),
        (replace(KNOWN, state="Empty", partitions=()), False, 2_000, TransactionVerdict.UNDETERMINED),
        (replace(KNOWN, state="Empty", partitions=()), True, 2_000, TransactionVerdict.NOT_IN_TRANSACTION),
        (None, True, 2_000, TransactionVerdict.UNKNOWN_PRODUCER),
        (None, False, 2_000, TransactionVerdict.UNDETERMINED),
    ],
)
def test_a_transaction_hangs_if_no_coordinator_will_end_it(
    known: DescribedTransaction | None, all_responded: bool, now_ms: int, expected: TransactionVerdict
) -> None:
    assert verdict(FOUND, known, all_responded=all_responded, now_ms=now_ms, timeout_ms_max=LIMIT_MS) is expected


def test_only_three_verdicts_hang() -> None:
    assert {v.value for v in TransactionVerdict if v.hangs} == {"unknown_producer", "not_in_transaction", "too_old"}


def test_a_target_names_partition_and_start_offset() -> None:
    assert FOUND.target == "orders-3@1234" and parse_target(FOUND.target) == ("orders", 3, 1234)
    assert parse_target("a-b@c-0@7") == ("a-b@c", 0, 7)
    for wrong in ("", "orders-3", "orders@12", "-3@12", "orders-x@12", "orders-3@", "orders-3@-1", f"o-1@{'9' * 30}"):
        assert parse_target(wrong) is None, wrong


def test_the_same_transaction_has_the_same_start_and_producer() -> None:
    assert FOUND.same_as(replace(FOUND, last_timestamp_ms=5, leader=2))
    assert not FOUND.same_as(replace(FOUND, start_offset=1235)) and not FOUND.same_as(replace(FOUND, producer_id=1))


@pytest.mark.parametrize("count", [1, 4, 50])
def test_a_probe_of_each_partition_has_the_coordinator_that_brokers_compute(count: int) -> None:
    probes = probe_ids(count)
    assert sorted(probes.values()) == list(range(count))
    assert all(partition_of(name, count) == partition for name, partition in probes.items())
    for name in ("", "billing", "team/app-0_17", "x" * 300):
        assert coordinator_partition(name, count) == partition_of(name, count)


def test_without_partitions_there_is_no_probe() -> None:
    assert probe_ids(0) == {}
