"""Look-ups by key in a topic: all partitions together are searched completely by tokens, newest first, and each failure has its partition."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.wire.messages.key_lookups import KeyLookupAnswer, KeyLookupQuestion, LookupStop
from controlplane.clients import key_lookups as client
from controlplane.clients.connection import NoAnswer
from controlplane.domain.errors import Rejected
from controlplane.domain.masking import MaskRule, MaskTarget, RecordRenderer
from controlplane.models import Broker
from controlplane.selectors.key_lookups import KeyLookup, look_up_key
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


class Leaders:
    """Answers as brokers do. `records`: partition to timestamps by offset; all have the key. A part of the scan ends after `per_answer` records."""

    def __init__(self, records: dict[int, list[int]], per_answer: int = 1_000) -> None:
        self.records, self.per_answer = records, per_answer
        self.dead: set[int] = set()
        self.questions: list[tuple[int, KeyLookupQuestion]] = []

    def __call__(self, broker: Any, topic: str, partition: int, q: KeyLookupQuestion) -> KeyLookupAnswer:
        self.questions.append((partition, q))
        if partition in self.dead:
            raise NoAnswer("broker 1 does not respond")
        stamps = self.records[partition]
        below = len(stamps) if q.before_offset < 0 else q.before_offset
        most = min(self.per_answer, q.matches_max)
        chosen = range(below - 1, max(-1, below - 1 - most), -1)
        next_ = chosen[-1] if chosen else 0
        return KeyLookupAnswer(
            matches=[
                KeyLookupAnswer.Match(
                    offset=o, timestamp=stamps[o], key=b"k", key_size=1, value=b"\xff", value_size=1, headers=[]
                )
                for o in chosen
            ],
            stop=LookupStop.LOG_START if next_ == 0 else LookupStop.MATCHES,
            next_before_offset=-1 if next_ == 0 else next_,
            start_offset=0,
            end_offset=len(stamps),
            log_bytes=100,
            index_bytes=7,
        )


def asked(monkeypatch: pytest.MonkeyPatch, world: World, leaders: Leaders) -> None:
    world.topic("orders", *[(1, 2)] * len(leaders.records))
    monkeypatch.setattr(client, "look_up", leaders)


def whole(limit: int) -> tuple[list[tuple[int, int]], list[KeyLookup]]:
    """(partition, offset) of every row until the token is empty, and the answers."""
    rows: list[tuple[int, int]] = []
    answers: list[KeyLookup] = []
    token = ""
    while not answers or token:
        answers.append(look_up_key("orders", b"k", limit=limit, token=token))
        assert answers[-1].rows or answers[-1].complete, "each answer makes progress"
        rows += [(r.partition, r.offset) for r in answers[-1].rows]
        token = answers[-1].token
    return rows, answers


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("per_answer", [1, 2, 1_000])
def test_tokens_lead_through_all_partitions_once_whatever_the_order_of_timestamps(
    monkeypatch: pytest.MonkeyPatch, world: World, limit: int, per_answer: int
) -> None:
    leaders = Leaders({0: [5, 9, 1], 1: [1, 2, 3, 4, 90], 2: [7, 7]}, per_answer)
    asked(monkeypatch, world, leaders)
    rows, answers = whole(limit)
    assert sorted(rows) == [(p, o) for p, stamps in leaders.records.items() for o in range(len(stamps))]
    for partition in leaders.records:
        offsets = [o for p, o in rows if p == partition]
        assert offsets == sorted(offsets, reverse=True)
    assert answers[-1].complete and all(not a.complete for a in answers[:-1])


def test_the_newest_record_of_all_partitions_is_first(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    asked(monkeypatch, world, Leaders({0: [1, 4], 1: [2, 3]}))
    found = look_up_key("orders", b"k", limit=3)
    assert [(r.partition, r.offset) for r in found.rows] == [(0, 1), (1, 1), (1, 0)]
    assert not found.complete and found.log_bytes == 200 and found.index_bytes == 14
    assert found.rows[0].binary == ["value"] and found.rows[0].value == "ff"


def test_masking_rules_apply_to_what_is_found(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    asked(monkeypatch, world, Leaders({0: [1]}))
    renderer = RecordRenderer("orders", [MaskRule("orders", MaskTarget.VALUE, "")])
    (row,) = look_up_key("orders", b"k", renderer=renderer).rows
    assert row.value_format == "masked" and row.value != "ff" and (row.key_bytes, row.value_bytes) == (1, 1)


def test_a_leader_that_does_not_answer_leaves_its_partition_in_the_token(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    leaders = Leaders({0: [1], 1: [2]})
    leaders.dead = {1}
    asked(monkeypatch, world, leaders)
    found = look_up_key("orders", b"k")
    assert [p.state for p in found.partitions] == ["complete", "failed"] and not found.complete
    assert found.partitions[1].problem == "broker 1 does not respond"
    leaders.dead = set()
    rest = look_up_key("orders", b"k", token=found.token)
    assert rest.complete and [r.partition for r in rest.rows] == [1]


def test_a_partition_without_a_known_leader_is_a_failure_of_its_own(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    asked(monkeypatch, world, Leaders({0: [1]}))
    Broker.objects.all().delete()
    found = look_up_key("orders", b"k")
    assert found.partitions[0].problem == "orders-0 has no leader with a known address"


def test_bytes_and_time_are_shared_between_the_partitions(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    leaders = Leaders({0: [1], 1: [2]})
    asked(monkeypatch, world, leaders)
    seen: list[tuple[int, int]] = []

    def spied(broker: Any, topic: str, partition: int, q: KeyLookupQuestion) -> KeyLookupAnswer:
        seen.append((q.bytes_max, q.duration_ms_max))
        return leaders(broker, topic, partition, q)

    monkeypatch.setattr(client, "look_up", spied)
    look_up_key("orders", b"k", bytes_max=1_000, duration_s=600.0)
    assert [b for b, _ in seen] == [500, 900] and seen[0][1] <= 300_000
    found = look_up_key("orders", b"k", bytes_max=50, duration_s=600.0)
    assert [p.state for p in found.partitions] == ["complete", "more"] and found.token


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"topic": "nope"}, "topic"),
        ({"partition": 9}, "partition"),
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"bytes_max": 0}, "bytes_max"),
        ({"from_ms": 5, "to_ms": 4}, "from_ms"),
        ({"token": "nonsense"}, "token"),
        ({"key": b"k" * 70_000}, "key"),
        ({"partition": 0, "token": "W1sxLDVdXQ"}, "token"),
    ],
)
def test_invalid_questions_are_rejected(
    monkeypatch: pytest.MonkeyPatch, world: World, arguments: dict[str, Any], field: str
) -> None:
    asked(monkeypatch, world, Leaders({0: [1], 1: [1]}))
    with pytest.raises(Rejected) as refused:
        look_up_key(**{"topic": "orders", "key": b"k", **arguments})
    assert refused.value.field == field
