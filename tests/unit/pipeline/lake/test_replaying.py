"""Conditions of a replay, and the commit of its transactions. The transactions themselves are tested on a cluster (tests/pipeline/test_lake_jobs.py)."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaException

from pipeline.lake.replaying import TableReplay, commit_with_retries


class Failure:
    def __init__(self, retriable: bool, abort: bool) -> None:
        self._retriable, self._abort = retriable, abort

    def retriable(self) -> bool:
        return self._retriable

    def txn_requires_abort(self) -> bool:
        return self._abort


class FakeProducer:
    def __init__(self, *failures: Failure) -> None:
        self.failures, self.aborted = list(failures), False

    def commit_transaction(self, timeout: float) -> None:
        if self.failures:
            raise KafkaException(self.failures.pop(0))

    def abort_transaction(self, timeout: float) -> None:
        self.aborted = True


def test_a_commit_is_repeated_while_that_can_help() -> None:
    producer: Any = FakeProducer(Failure(True, False), Failure(True, False))
    commit_with_retries(producer)
    assert not producer.failures


def test_a_transaction_that_failed_is_aborted() -> None:
    producer: Any = FakeProducer(Failure(False, True))
    with pytest.raises(KafkaException):
        commit_with_retries(producer)
    assert producer.aborted


def test_conditions_of_a_replay() -> None:
    replay = TableReplay("run-1", "t", "u", {0: 5}, since="2026-01-01T00:00:00+00:00", key="k", where="partition = 1")
    text = str(replay.condition())
    assert all(part in text for part in ("timestamp", "key", "partition"))
    assert str(TableReplay("run-1", "t", "u", {}).condition()) == "AlwaysTrue()"
    assert TableReplay("run-1", "t", "u", {}).group(3) == "weir-replay-run-1-3"
    with pytest.raises(ValueError, match="is not valid"):
        TableReplay("run-1", "t", "u", {}, where="((").condition()
