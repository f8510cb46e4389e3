"""The offsets of one group, whichever protocol its members speak: committed, under way, undecided. A sans-IO core.

Laws: nothing is answered as committed before it is persisted; what was committed in a transaction counts when its marker says so; of
two commits the one that stands later in the log counts. Called by `group` and `consumer_group`, who say whether the asker may commit,
and by the loader. Must not come in: members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerd.coordinator.events import (
    NONE,
    NOT_COORDINATOR,
    Answered,
    Commit,
    Effect,
    Offset,
    Persisted,
    PersistFailed,
    PersistOffsets,
    Reply,
    TopicIndex,
    TransactionalCommit,
)

NOTHING_REFUSED: Mapping[TopicIndex, int] = {}


@dataclass(slots=True)
class Commits:
    offsets: dict[TopicIndex, Offset] = field(default_factory=dict)
    placed: dict[TopicIndex, int] = field(default_factory=dict)
    """Where the record of each offset stands in the log: the later one counts, as for compaction, also if its transaction ends last."""
    undecided: dict[int, dict[TopicIndex, tuple[Offset, int]]] = field(default_factory=dict)
    """{producer id: (offset, place of its record)} of transactions that are not ended."""
    _number: int = 0
    _under_way: dict[int, tuple[Any, Answered, Mapping[TopicIndex, Offset], int | None]] = field(default_factory=dict)
    """(token, its answer, offsets, producer id of a transaction) by number."""

    def next_number(self) -> int:
        """Numbers of what a group wants persisted, offsets or not: `Persisted` names one."""
        self._number += 1
        return self._number

    @property
    def none(self) -> bool:
        return not self.offsets and not self.undecided and not self._under_way

    @property
    def pending(self) -> bool:
        """Whether some are on their way: in a transaction, or to the log."""
        return bool(self.undecided or self._under_way)

    def commit(self, e: Commit, refused: Mapping[TopicIndex, int] = NOTHING_REFUSED) -> list[Effect]:
        number, offsets = self.next_number(), _without(e.offsets, refused)
        self._under_way[number] = (e.token, Answered(NONE, refused), offsets, None)
        return [PersistOffsets(number, offsets)]

    def commit_in_transaction(
        self, e: TransactionalCommit, refused: Mapping[TopicIndex, int] = NOTHING_REFUSED
    ) -> list[Effect]:
        number, offsets = self.next_number(), _without(e.offsets, refused)
        self._under_way[number] = (e.token, Answered(NONE, refused), offsets, e.producer_id)
        return [PersistOffsets(number, offsets, (e.producer_id, e.producer_epoch))]

    def persisted(self, e: Persisted) -> list[Effect] | None:
        """None: that number is none of ours."""
        commit = self._under_way.pop(e.number, None)
        if commit is None:
            return None
        token, answer, offsets, producer_id = commit
        for i, (key, offset) in enumerate(offsets.items()):
            self.place(key, offset, e.log_offset + i, producer_id)
        return [Reply(token, answer)]

    def failed(self, e: PersistFailed) -> list[Effect] | None:
        commit = self._under_way.pop(e.number, None)
        return None if commit is None else [Reply(commit[0], Answered(e.error))]

    def unload(self) -> list[Effect]:
        effects: list[Effect] = [Reply(token, Answered(NOT_COORDINATOR)) for token, *_ in self._under_way.values()]
        self._under_way.clear()
        return effects

    # -- what the log says -------------------------------------------------------------------------------------------------
    def place(self, key: TopicIndex, offset: Offset, log_offset: int, producer_id: int | None = None) -> None:
        """A record of a commit stands in the log."""
        if producer_id is not None:
            self.undecided.setdefault(producer_id, {})[key] = (offset, log_offset)
        elif log_offset >= self.placed.get(key, -1):
            self.offsets[key], self.placed[key] = offset, log_offset

    def forget(self, key: TopicIndex) -> None:
        self.offsets.pop(key, None)
        self.placed.pop(key, None)

    def transaction_ended(self, producer_id: int, committed: bool) -> None:
        """Its marker is replicated."""
        for key, (offset, log_offset) in self.undecided.pop(producer_id, {}).items():
            if committed:
                self.place(key, offset, log_offset)

    def unstable(self) -> set[TopicIndex]:
        """What a transaction may change yet."""
        under_way = {
            k for _, _, offsets, producer_id in self._under_way.values() if producer_id is not None for k in offsets
        }
        return under_way.union(*self.undecided.values())


def _without(offsets: Mapping[TopicIndex, Offset], refused: Mapping[TopicIndex, int]) -> Mapping[TopicIndex, Offset]:
    return {place: offset for place, offset in offsets.items() if place not in refused} if refused else offsets
