"""Look-ups by key in a topic: all partitions together are searched completely by tokens, newest first, and each failure has its partition."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.wire.messages.key_lookups import KeyLookupRequest, KeyLookupResponse, LookupStop
from controlplane.clients import key_lookups as client
from controlplane.clients.connection import NoResponse
from controlplane.domain.errors import Rejected
from controlplane.domain.masking import MaskRule, MaskTarget, RecordRenderer
from controlplane.models import Broker
from controlplane.selectors import key_lookups
from controlplane.selectors.key_lookups import KeyLookup, has_key_index, look_up_for_download, look_up_key
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


class Leaders:
    """Answers as brokers do. `records`: partition to timestamps by offset; all have the key. A part of the scan ends after `per_response` records."""

    def __init__(self, records: dict[int, list[int]], per_response: int = 1_000) -> None:
        self.records, self.per_response = records, per_response
        self.dead: set[int] = set()
        self.queries: list[tuple[int, KeyLookupRequest]] = []

    def __call__(self, broker: Any, topic: str, partition: int, q: KeyLookupRequest) -> KeyLookupResponse:
        self.queries.append((partition, q))
        if partition in self.dead:
            raise NoResponse("broker 1 does not respond")
        stamps = self.records[partition]
        below = len(stamps) if q.before_offset < 0 else q.before_offset
        most = min(self.per_response, q.matches_max)
        chosen = range(below - 1, max(-1, below - 1 - most), -1)
        next_ = chosen[-1] if chosen else 0
        return KeyLookupResponse(
            matches=[
                KeyLookupResponse.Match(
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


def use_leaders(monkeypatch: pytest.MonkeyPatch, world: World, leaders: Leaders) -> None:
    world.topic("orders", *[(1, 2)] * len(leaders.records))
    monkeypatch.setattr(client, "look_up", leaders)


def read_all_pages(limit: int) -> tuple[list[tuple[int, int]], list[KeyLookup]]:
    """(partition, offset) of every row until the token is empty, and the responses."""
    rows: list[tuple[int, int]] = []
    responses: list[KeyLookup] = []
    token = ""
    while not responses or token:
        responses.append(look_up_key("orders", b"k", limit=limit, token=token))
        assert responses[-1].rows or responses[-1].complete, "each response makes progress"
        rows += [(r.partition, r.offset) for r in responses[-1].rows]
        token = responses[-1].token
    return rows, responses


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("per_response", [1, 2, 1_000])
def test_tokens_lead_through_all_partitions_once_whatever_the_order_of_timestamps(
    monkeypatch: pytest.MonkeyPatch, world: World, limit: int, per_response: int
) -> None:
    leaders = Leaders({0: [5, 9, 1], 1: [1, 2, 3, 4, 90], 2: [7, 7]}, per_response)
    use_leaders(monkeypatch, world, leaders)
    rows, responses = read_all_pages(limit)
    assert sorted(rows) == [(p, o) for p, stamps in leaders.records.items() for o in range(len(stamps))]
    for partition in leaders.records:
        offsets = [o for p, o in rows if p == partition]
        assert offsets == sorted(offsets, reverse=True)
    assert responses[-1].complete and all(not a.complete for a in responses[:-1])


def test_the_newest_record_of_all_partitions_is_first(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    use_leaders(monkeypatch, world, Leaders({0: [1, 4], 1: [2, 3]}))
    found = look_up_key("orders", b"k", limit=3)
    assert [(r.partition, r.offset) for r in found.rows] == [(0, 1), (1, 1), (1, 0)]
    assert not found.complete and found.log_bytes == 200 and found.index_bytes == 14
    assert found.rows[0].binary == ["value"] and found.rows[0].value == "ff"


def test_masking_rules_apply_to_found_records(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    use_leaders(monkeypatch, world, Leaders({0: [1]}))
    renderer = RecordRenderer("orders", [MaskRule("orders", MaskTarget.VALUE, "")])
    (row,) = look_up_key("orders", b"k", renderer=renderer).rows
    assert row.value_format == "masked" and row.value != "ff" and (row.key_bytes, row.value_bytes) == (1, 1)


def test_a_leader_that_does_not_respond_leaves_its_partition_in_the_token(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    leaders = Leaders({0: [1], 1: [2]})
    leaders.dead = {1}
    use_leaders(monkeypatch, world, leaders)
    found = look_up_key("orders", b"k")
    assert [p.state for p in found.partitions] == ["complete", "failed"] and not found.complete
    assert found.partitions[1].problem == "broker 1 does not respond"
    leaders.dead = set()
    rest = look_up_key("orders", b"k", token=found.token)
    assert rest.complete and [r.partition for r in rest.rows] == [1]


def test_a_partition_without_a_known_leader_is_a_failure_of_its_own(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    use_leaders(monkeypatch, world, Leaders({0: [1]}))
    Broker.objects.all().delete()
    found = look_up_key("orders", b"k")
    assert found.partitions[0].problem == "orders-0 has no leader with a known address"


def test_bytes_and_time_are_shared_between_the_partitions(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    leaders = Leaders({0: [1], 1: [2]})
    use_leaders(monkeypatch, world, leaders)
    seen: list[tuple[int, int]] = []

    def look_up_and_record(broker: Any, topic: str, partition: int, q: KeyLookupRequest) -> KeyLookupResponse:
        seen.append((q.bytes_max, q.duration_ms_max))
        return leaders(broker, topic, partition, q)

    monkeypatch.setattr(client, "look_up", look_up_and_record)
    look_up_key("orders", b"k", bytes_max=1_000, duration_s=600.0)
    assert [b for b, _ in seen] == [500, 900] and seen[0][1] <= 300_000
    found = look_up_key("orders", b"k", bytes_max=50, duration_s=600.0)
    assert [p.state for p in found.partitions] == ["complete", "more"] and found.token


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"topic": "nope"}, "topic"),
        ({"partitions": (0, 9)}, "partition"),
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"bytes_max": 0}, "bytes_max"),
        ({"from_ms": 5, "to_ms": 4}, "from_ms"),
        ({"token": "nonsense"}, "token"),
        ({"key": b"k" * 70_000}, "key"),
        ({"partitions": (0,), "token": "W1sxLDVdXQ"}, "token"),
    ],
)
def test_invalid_questions_are_rejected(
    monkeypatch: pytest.MonkeyPatch, world: World, arguments: dict[str, Any], field: str
) -> None:
    use_leaders(monkeypatch, world, Leaders({0: [1], 1: [1]}))
    with pytest.raises(Rejected) as rejection:
        look_up_key(**{"topic": "orders", "key": b"k", **arguments})
    assert rejection.value.field == field


def test_only_the_chosen_partitions_are_searched(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    leaders = Leaders({0: [1], 1: [2], 2: [3]})
    use_leaders(monkeypatch, world, leaders)
    found = look_up_key("orders", b"k", partitions=(0, 2))
    assert found.complete and [p.partition for p in found.partitions] == [0, 2]


def test_an_incomplete_response_has_the_reason(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    leaders = Leaders({0: [1, 2, 3], 1: [4]})
    use_leaders(monkeypatch, world, leaders)
    complete = look_up_key("orders", b"k")
    assert (complete.stopped, complete.is_page, complete.note) == (
        "end",
        False,
        "Each record of the range was searched.",
    )
    page = look_up_key("orders", b"k", limit=2)
    assert (page.stopped, page.is_page, page.note) == ("limit", True, "Older records may have this key.")
    assert [(p.state, p.stopped) for p in page.partitions] == [("more", "limit"), ("complete", "end")]
    bytes_used = look_up_key("orders", b"k", bytes_max=50)
    assert bytes_used.stopped == "bytes" and not bytes_used.is_page and "limit of bytes" in bytes_used.note
    late = look_up_key("orders", b"k", duration_s=0.0)
    assert late.stopped == "time" and "time limit" in late.note and late.rows == []
    leaders.dead = {0}
    failed = look_up_key("orders", b"k")
    assert failed.stopped == "failed" and failed.note == "1 partition could not be searched." and not failed.is_page


def test_a_partition_whose_records_are_not_shown_is_not_complete(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    use_leaders(monkeypatch, world, Leaders({0: [1, 2], 1: [3, 4]}))
    found = look_up_key("orders", b"k", limit=2)
    assert [(p.state, p.stopped, p.searched_from) for p in found.partitions] == [
        ("more", "limit", 2),
        ("complete", "end", 0),
    ]


def test_a_value_that_the_broker_cut_is_marked(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    leaders = Leaders({0: [1]})
    use_leaders(monkeypatch, world, leaders)

    def look_up_with_cut_value(broker: Any, topic: str, partition: int, q: KeyLookupRequest) -> KeyLookupResponse:
        response = leaders(broker, topic, partition, q)
        response.matches[0].value_size = 70_000
        return response

    monkeypatch.setattr(client, "look_up", look_up_with_cut_value)
    (row,) = look_up_key("orders", b"k").rows
    assert row.value_bytes == 70_000 and any("the first 1 of 70,000 bytes" in note for note in row.notes)


def test_a_download_is_several_look_ups_within_its_limits(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    leaders = Leaders({0: list(range(250)), 1: list(range(30))}, per_response=60)
    use_leaders(monkeypatch, world, leaders)
    whole = look_up_for_download("orders", b"k", limit=1_000)
    assert whole.complete and len(whole.rows) == 280 and len({(r.partition, r.offset) for r in whole.rows}) == 280
    part = look_up_for_download("orders", b"k", limit=150)
    assert len(part.rows) == 150 and not part.complete and part.stopped == "limit"
    assert not look_up_for_download("orders", b"k", limit=1_000, seconds=0.0).complete
    monkeypatch.setattr(key_lookups, "DOWNLOAD_RESPONSE_BYTES", 1)
    assert len(look_up_for_download("orders", b"k", limit=1_000).rows) == 90
    leaders.dead = {1}
    assert look_up_for_download("orders", b"k", limit=1_000).failed


def test_a_topic_has_an_index_if_its_config_enables_it(world: World) -> None:
    world.topic("orders", (1, 2), configs={"weir.index.keys": "true"})
    world.topic("plain", (1, 2), configs={"weir.index.keys": "false"})
    assert has_key_index("orders") and not has_key_index("plain") and not has_key_index("absent")
