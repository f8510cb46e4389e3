"""Requests that are forwarded to the controller. Each topic is answered once and in order. No part exceeds the size limits."""

from __future__ import annotations

import json
import random
from typing import Any
from uuid import uuid4

import pytest

from brokerd.apis import forwarding
from brokerd.apis.forwarding import Forwarding
from brokerd.cluster.configs import TOPIC_CONFIGS, topic_config_problem
from brokerd.cluster.metadata import ENTRY_BYTES_MAX, Entry, RequestCompleted, TopicCreated
from brokerd.cluster.requests import CreateTopics, NewTopic
from brokerd.wire.errors import ErrorCode
from tests.unit.stored_requests import recorder


class ControllerStub:
    """The controller's side: records the requests, answers when the test calls `respond`."""

    def __init__(self) -> None:
        self.requested: list[tuple[str, dict[str, Any], int, Any]] = []
        self.results: list[Any] = []
        self.forward = Forwarding(recorder(self.requested))

    def send(self, topics: list[NewTopic], **more: Any) -> None:
        self.forward(CreateTopics(principal="User:ann", items=tuple(topics)), 5_000, self.results.append, **more)

    def respond(self, number: int, error: int = 0) -> None:
        _, payload, _, done = self.requested[number]
        results = [{"name": t["name"], "error": error, "message": None} for t in payload["topics"]]
        done(RequestCompleted(str(number), 0, None, {"results": results}))


def topics(count: int, size: int = 0) -> list[NewTopic]:
    return [NewTopic(f"t{i}", 1, 1, configs={"x": "v" * size}) for i in range(count)]


HUGE = NewTopic("huge", 1, 1, configs={"x": "v" * forwarding.ITEM_BYTES_MAX})


def test_a_request_with_few_topics_is_forwarded_in_one_part() -> None:
    requested = ControllerStub()
    requested.send(topics(20))
    requested.respond(0)
    assert [r.name for r in requested.results[0]] == [f"t{i}" for i in range(20)]


def test_each_forwarded_part_has_the_principal() -> None:
    requested = ControllerStub()
    requested.send(topics(200, 300))
    assert len(requested.requested) > 1
    assert {payload["principal"] for _, payload, _, _ in requested.requested} == {"User:ann"}


def test_a_request_with_many_topics_is_forwarded_in_parts_with_ordered_results() -> None:
    requested = ControllerStub()
    requested.send(topics(500, 300))
    assert len(requested.requested) > 5
    for _, payload, _, _ in requested.requested:
        assert len(json.dumps(payload["topics"])) <= forwarding.PIECE_BYTES_MAX + 2 * len(payload["topics"])
    order = list(range(len(requested.requested)))
    random.Random(3).shuffle(order)
    for number in order:
        assert not requested.results, "reported before everything was answered"
        requested.respond(number)
    assert [r.name for r in requested.results[0]] == [f"t{i}" for i in range(500)]
    assert len(requested.results) == 1


def test_a_part_without_a_response_is_a_time_out_for_its_topics_only() -> None:
    requested = ControllerStub()
    requested.send(topics(100, 300))
    for number in range(1, len(requested.requested)):
        requested.respond(number)
    requested.requested[0][3](None)
    first = len(requested.requested[0][1]["topics"])
    errors = [r.error for r in requested.results[0]]
    assert errors == [ErrorCode.REQUEST_TIMED_OUT] * first + [0] * (100 - first)


def test_a_topic_above_the_size_limit_is_rejected_and_the_others_are_forwarded() -> None:
    requested = ControllerStub()
    requested.send([*topics(1), HUGE, *topics(1)])
    requested.respond(0)
    assert [r.error for r in requested.results[0]] == [0, ErrorCode.POLICY_VIOLATION, 0]
    requested.send([HUGE])
    assert requested.results[1][0].error == ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize(
    ("count", "partitions"),
    [(forwarding.ITEMS_PER_REQUEST_MAX + 1, 0), (3, forwarding.PARTITIONS_PER_REQUEST_MAX + 1)],
)
def test_too_many_items_in_one_request_are_rejected_with_a_message(count: int, partitions: int) -> None:
    requested = ControllerStub()
    requested.send(topics(count), partitions=partitions)
    assert not requested.requested
    assert {r.error for r in requested.results[0]} == {ErrorCode.POLICY_VIOLATION}
    assert "the limit is" in requested.results[0][0].message
    assert len(requested.results[0]) == count


def test_an_empty_request_is_answered() -> None:
    requested = ControllerStub()
    requested.send([])
    assert requested.results == [[]]


def test_a_long_message_is_truncated() -> None:
    requested = ControllerStub()
    requested.send(topics(1))
    requested.requested[0][3](
        RequestCompleted("0", 0, None, {"results": [{"name": "t0", "error": 40, "message": "m" * 40_000}]})
    )
    assert len(requested.results[0][0].message) < 1_100


@pytest.mark.parametrize(
    "result", [{"results": 5}, {"results": [5]}, {"results": [{"error": "x"}]}, {"results": [{"name": 1}]}]
)
def test_a_response_that_cannot_be_read_fails_each_item(result: dict[str, Any]) -> None:
    requested = ControllerStub()
    requested.send(topics(2))
    requested.requested[0][3](RequestCompleted("0", 0, None, result))
    assert [(r.name, r.error) for r in requested.results[0]] == [("t0", -1), ("t1", -1)]


def test_results_are_assigned_by_name_if_some_are_missing() -> None:
    requested = ControllerStub()
    requested.send(topics(2))
    results = [{"name": "t1", "error": 40, "message": None, "later": 1}]
    requested.requested[0][3](RequestCompleted("0", 0, None, {"results": results}))
    assert [(r.name, r.error) for r in requested.results[0]] == [("t0", -1), ("t1", 40)]


def test_the_result_of_each_part_fits_a_metadata_log_entry() -> None:
    """Names that do not compress, each rejected with the longest message."""
    rng = random.Random(1)
    requested = ControllerStub()
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    requested.send([NewTopic("".join(rng.choices(letters, k=200)), 1, 1) for _ in range(500)])
    for _, payload, _, _ in requested.requested:
        results = [
            {"name": t["name"], "error": 42, "message": f"Topic '{t['name']}' " + "and so on " * 50}
            for t in payload["topics"]
        ]
        entry = Entry(1, 1, "b", "p", (RequestCompleted("0", 0, None, {"results": results}),))
        assert len(entry.encode()) < ENTRY_BYTES_MAX


def test_a_topic_with_the_longest_configs_fits_a_metadata_log_entry() -> None:
    rng = random.Random(2)
    settings = {}
    for name, definition in TOPIC_CONFIGS.items():
        if name.endswith("throttled.replicas"):
            value = ",".join(f"{rng.randrange(10_000)}:{rng.randrange(1_000)}" for _ in range(850))
        elif definition.choices:
            value = ",".join(rng.choice(definition.choices) for _ in range(600))
        else:
            value = definition.default_text.rjust(40, "0")
        value = value if topic_config_problem(name, value) is None else definition.default_text
        settings[name] = value
    assert sum(len(v) for v in settings.values()) > 15_000
    record = TopicCreated(uuid4(), "t" * 249, 1, settings, 10_000)
    assert len(Entry(1, 1, "b", "p", (record,)).encode()) < ENTRY_BYTES_MAX


@pytest.mark.parametrize("value", ["1_000", "\u0661\u0662", "0" * 41, "9" * 9_000])
def test_numbers_that_only_python_accepts_are_rejected(value: str) -> None:
    assert topic_config_problem("retention.ms", value) is not None
    assert topic_config_problem("retention.ms", " 1000 ") is None, "Kafka trims"
