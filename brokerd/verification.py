"""Before a producer's first batch of a transaction in a partition is written, its coordinator says that they belong together (KIP-890).

Laws: without that word a batch that comes late, after its transaction's marker, would begin a transaction that nobody ever ends; what
the coordinator said counts only if no marker of that producer was written meanwhile; a producer's batches go on in the order in
which they came, so that whoever comes while one is asked about waits behind it. Called by the doors that write transactional
batches and markers. Must not come in: how the coordinator is reached (told as `ask`), what transactions are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from brokerd.cluster.model import TopicPartition
from brokerd.replica import Replica
from brokerd.wire.errors import ErrorCode

Told = Callable[[ErrorCode, str | None], None]
"""The coordinator's word, and a sentence."""


class AskCoordinator(Protocol):
    def __call__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: tuple[str, int],
        add: bool,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Is `partition` in this producer's present transaction? With `add`, it is from now on. `done` is called later, once."""


class Question:
    __slots__ = ("epoch", "overtaken", "waiting")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.overtaken = False
        """A marker was written since."""
        self.waiting: list[Told] = []


class Verification:
    def __init__(self, ask: AskCoordinator, *, enabled: bool) -> None:
        self._ask, self.enabled = ask, enabled
        self._questions: dict[tuple[TopicPartition, int], Question] = {}

    def needed(self, replica: Replica, producer_id: int, producer_epoch: int, *, add: bool) -> bool:
        """No transaction of this producer and epoch is open in the log, or somebody waits whom this batch must not overtake. Who leaves
        it to us to `add` the partition is asked about in any case."""
        if not self.enabled and not add:
            return False
        if self.asking(replica, producer_id):
            return True
        known = replica.log.producers.known.get(producer_id)
        return known is None or known.first_offset < 0 or known.epoch != producer_epoch

    def asking(self, replica: Replica, producer_id: int) -> bool:
        """Whether a batch of this producer waits for its coordinator's word."""
        return (replica.tp, producer_id) in self._questions

    def ask(
        self, replica: Replica, transactional_id: str, producer_id: int, producer_epoch: int, told: Told, *, add: bool
    ) -> None:
        key = (replica.tp, producer_id)
        question = self._questions.get(key)
        if question is not None and question.epoch == producer_epoch:
            question.waiting.append(told)
            return
        question = self._questions[key] = Question(producer_epoch)
        question.waiting.append(told)
        self._ask(
            transactional_id,
            producer_id,
            producer_epoch,
            (replica.topic, replica.tp.partition),
            add,
            lambda error: self._answered(key, question, error),
        )

    def _answered(self, key: tuple[TopicPartition, int], question: Question, error: ErrorCode) -> None:
        if self._questions.get(key) is question:
            del self._questions[key]
        why = None if error == ErrorCode.NONE else f"the transaction's coordinator says {error.name}"
        if error == ErrorCode.NONE and question.overtaken:
            error, why = ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction was ended while its coordinator was asked"
        for told in question.waiting:
            told(error, why)

    def marker_written(self, tp: TopicPartition, producer_id: int) -> None:
        question = self._questions.get((tp, producer_id))
        if question is not None:
            question.overtaken = True
