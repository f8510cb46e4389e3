"""ListOffsets: each time that means something else than a time, and the versions it has a meaning in. Does not search logs: tests/unit/storage does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis import offsets
from brokerd.apis.offsets import OffsetsApi
from brokerd.archives import UNANSWERED, Archives, Held, Question
from brokerd.cluster.metadata import PartitionChanged
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ListOffsetsRequest
from brokerd.wire.records import Record
from tests.simulation.disk import SimDisk
from tests.unit.test_relocations import TP, House

NOTHING = (0, -1, -1)


def house(*timestamps: int) -> House:
    """A leader whose records have these times, one record per batch."""
    made = House(SimDisk())
    for t in timestamps:
        data = bytearray(records.build([Record(0, t, b"k", b"v")]))
        made.replica.log.append(data, records.check(data), 0, made.now)
        made.partitions.appended(made.replica, made.now)
    return made


def asked(
    house: House, timestamp: int, version: int = 11, *, twice: bool = False, holder: Callable[[int], Held] | None = None
) -> Any:
    """(error, offset, timestamp). `holder` says what it holds at a time; without one nobody may be asked."""
    r = ListOffsetsRequest
    wanted = r.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    body = r(replica_id=-1, topics=[r.ListOffsetsTopic(name="t", partitions=[wanted] * (1 + twice))])
    answers: list[Any] = []
    request: Any = SimpleNamespace(body=body, header=SimpleNamespace(api_version=version), reply=answers.append)
    loop: Any = SimpleNamespace(now=house.now)

    def ask(to: int, question: Question, done: Callable[[Held | None], None]) -> None:
        assert holder is not None, f"{question} is asked of {to}"
        done(holder(question.at))

    archives = Archives(ask, lambda: house.now, lambda b: True)
    OffsetsApi(loop, house.partitions, archives).list_offsets(request)
    told = answers[0].topics[0].partitions[-1]
    return told.error_code, told.offset, told.timestamp


def test_every_kind_has_its_answer_where_nothing_is_tiered() -> None:
    made = house(5_000, 9_000, 7_000)
    made.replica.log.raise_start(1)
    assert asked(made, offsets.EARLIEST) == (0, 1, -1)
    assert asked(made, offsets.EARLIEST_LOCAL) == (0, 1, -1), "all that there is is local"
    assert asked(made, offsets.LATEST) == (0, 3, -1)
    assert asked(made, offsets.MAX_TIMESTAMP) == (0, 1, 9_000)
    assert asked(made, offsets.LATEST_TIERED) == NOTHING
    assert asked(made, offsets.EARLIEST_PENDING_UPLOAD) == NOTHING
    assert asked(made, 7_000) == (0, 1, 9_000), "the first record of that time or later"
    assert asked(made, 9_001) == NOTHING


def test_an_empty_log_has_ends_and_no_newest_record() -> None:
    made = house()
    assert [asked(made, t) for t in (offsets.EARLIEST, offsets.EARLIEST_LOCAL, offsets.LATEST)] == [(0, 0, -1)] * 3
    assert [asked(made, t) for t in (offsets.MAX_TIMESTAMP, offsets.LATEST_TIERED, 0)] == [NOTHING] * 3


@pytest.mark.parametrize(("timestamp", "since"), sorted(offsets.SINCE.items()))
def test_a_request_of_before_may_not_use_it(timestamp: int, since: int) -> None:
    made = house(5_000)
    assert asked(made, timestamp, since)[0] == 0
    if since > 1:
        assert asked(made, timestamp, since - 1) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)


def test_what_means_nothing_is_refused() -> None:
    made = house(5_000)
    assert asked(made, -7)[0] == ErrorCode.UNSUPPORTED_VERSION
    assert asked(made, offsets.LATEST, twice=True)[0] == ErrorCode.INVALID_REQUEST


def apart() -> House:
    """As `house`, of four records; what lies below the third is with broker 7."""
    made = house(5_000, 9_000, 7_000, 9_500)
    made.replica.log.raise_start(2)
    state = made.image.partition(TP)
    assert state is not None
    state = replace(state, partition_epoch=1, leader_epoch=1, archive_start=2, archive_epoch=1, holders=(7,))
    record = PartitionChanged(TP.topic_id, 0, state)
    made.image.apply(record)
    made.partitions.apply(made.image, [record], made.now)
    assert made.replica.asks_below == 2
    return made


def holds(timestamp: int) -> Held:
    found = {
        offsets.EARLIEST: (0, -1, 0),
        offsets.MAX_TIMESTAMP: (1, 9_000, 0),
        5_000: (0, 5_000, 0),
        6_000: (1, 9_000, 0),
    }
    return Held(ErrorCode.NONE, 0, found=found.get(timestamp))


def test_what_lies_apart_is_asked_first_and_what_lies_here_after() -> None:
    made = apart()
    assert asked(made, offsets.EARLIEST, holder=holds) == (0, 0, -1)
    assert asked(made, offsets.EARLIEST_LOCAL) == (0, 2, -1), "nobody is asked"
    assert asked(made, offsets.LATEST) == (0, 4, -1)
    assert asked(made, 6_000, holder=holds) == (0, 1, 9_000), "7,000 is here, and later"
    assert asked(made, 9_100, holder=holds) == (0, 3, 9_500), "none there"
    assert asked(made, offsets.MAX_TIMESTAMP, holder=holds) == (0, 3, 9_500)
    newer = lambda t: Held(ErrorCode.NONE, 0, found=(1, 9_900, 0))  # noqa: E731
    assert asked(made, offsets.MAX_TIMESTAMP, holder=newer) == (0, 1, 9_900)


def test_nobody_who_could_say_it_is_an_error_that_passes_in_every_version() -> None:
    made = apart()
    assert asked(made, 5_000, holder=lambda t: UNANSWERED)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert asked(made, offsets.EARLIEST, 4, holder=lambda t: UNANSWERED)[0] == ErrorCode.LEADER_NOT_AVAILABLE
