"""Changes on their way to the controller: every topic is answered once and in order, and no piece is more than its carriers hold."""

from __future__ import annotations

import json
import random
from typing import Any
from uuid import uuid4

import pytest

from brokerd.apis import forwarding
from brokerd.apis.forwarding import Forwarding
from brokerd.cluster.configs import TOPIC_CONFIGS, topic_config_problem
from brokerd.cluster.metadata import ENTRY_BYTES_MAX, Entry, RequestAnswered, TopicCreated
from brokerd.wire.errors import ErrorCode


class Asked:
    """The controller's end: keeps what was asked, answers when told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any], int, Any]] = []
        self.results: list[Any] = []
        self.forward = Forwarding(lambda *question: self.asked.append(question))

    def send(self, topics: list[dict[str, Any]], **more: Any) -> None:
        self.forward("User:ann", "create_topics", topics, False, 5_000, self.results.append, **more)

    def answer(self, number: int, error: int = 0) -> None:
        _, payload, _, done = self.asked[number]
        results = [{"name": t["name"], "error": error, "message": None} for t in payload["topics"]]
        done(RequestAnswered(str(number), 0, None, {"results": results}))


def topics(count: int, size: int = 0) -> list[dict[str, Any]]:
    return [{"name": f"t{i}", "configs": {"x": "v" * size}} for i in range(count)]


def test_few_topics_go_in_one_piece() -> None:
    asked = Asked()
    asked.send(topics(20))
    asked.answer(0)
    assert [r["name"] for r in asked.results[0]] == [f"t{i}" for i in range(20)]


def test_every_piece_says_on_whose_behalf_it_is_asked() -> None:
    asked = Asked()
    asked.send(topics(200, 300))
    assert len(asked.asked) > 1
    assert {payload["principal"] for _, payload, _, _ in asked.asked} == {"User:ann"}


def test_many_topics_go_in_pieces_and_come_back_in_order() -> None:
    asked = Asked()
    asked.send(topics(500, 300))
    assert len(asked.asked) > 5
    for _, payload, _, _ in asked.asked:
        assert len(json.dumps(payload["topics"])) <= forwarding.PIECE_BYTES_MAX + 2 * len(payload["topics"])
    order = list(range(len(asked.asked)))
    random.Random(3).shuffle(order)
    for number in order:
        assert not asked.results, "told before everything was answered"
        asked.answer(number)
    assert [r["name"] for r in asked.results[0]] == [f"t{i}" for i in range(500)]
    assert len(asked.results) == 1


def test_a_piece_without_an_answer_is_a_time_out_for_its_topics_alone() -> None:
    asked = Asked()
    asked.send(topics(100, 300))
    for number in range(1, len(asked.asked)):
        asked.answer(number)
    asked.asked[0][3](None)
    first = len(asked.asked[0][1]["topics"])
    errors = [r["error"] for r in asked.results[0]]
    assert errors == [ErrorCode.REQUEST_TIMED_OUT] * first + [0] * (100 - first)


def test_one_topic_too_large_to_carry_is_refused_and_the_others_go() -> None:
    asked = Asked()
    asked.send([*topics(1), {"name": "huge", "x": "v" * forwarding.TOPIC_BYTES_MAX}, *topics(1)])
    asked.answer(0)
    assert [r["error"] for r in asked.results[0]] == [0, ErrorCode.POLICY_VIOLATION, 0]
    asked.send([{"name": "huge", "x": "v" * forwarding.TOPIC_BYTES_MAX}])
    assert asked.results[1][0]["error"] == ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize(
    ("count", "partitions"),
    [(forwarding.TOPICS_PER_REQUEST_MAX + 1, 0), (3, forwarding.PARTITIONS_PER_REQUEST_MAX + 1)],
)
def test_more_than_a_request_may_ask_for_is_refused_with_a_sentence(count: int, partitions: int) -> None:
    asked = Asked()
    asked.send(topics(count), partitions=partitions)
    assert not asked.asked
    assert {r["error"] for r in asked.results[0]} == {ErrorCode.POLICY_VIOLATION}
    assert "at most" in asked.results[0][0]["message"]
    assert len(asked.results[0]) == count


def test_nothing_asked_is_answered() -> None:
    asked = Asked()
    asked.send([])
    assert asked.results == [[]]


def test_a_long_sentence_is_cut() -> None:
    asked = Asked()
    asked.send(topics(1))
    asked.asked[0][3](
        RequestAnswered("0", 0, None, {"results": [{"name": "t0", "error": 40, "message": "m" * 40_000}]})
    )
    assert len(asked.results[0][0]["message"]) < 1_100


def test_the_answer_to_any_piece_fits_an_entry_of_the_metadata_log() -> None:
    """Names that do not compress, each refused with the longest sentence."""
    rng = random.Random(1)
    asked = Asked()
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    asked.send([{"name": "".join(rng.choices(letters, k=200))} for _ in range(500)])
    for _, payload, _, _ in asked.asked:
        results = [
            {"name": t["name"], "error": 42, "message": f"Topic '{t['name']}' " + "and so on " * 50} for t in payload["topics"]
        ]  # fmt: skip
        entry = Entry(1, 1, "b", "p", (RequestAnswered("0", 0, None, {"results": results}),))
        assert len(entry.encode()) < ENTRY_BYTES_MAX


def test_a_topic_with_the_longest_settings_fits_an_entry() -> None:
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
def test_numbers_that_only_python_reads_are_no_numbers(value: str) -> None:
    assert topic_config_problem("retention.ms", value) is not None
    assert topic_config_problem("retention.ms", " 1000 ") is None, "Kafka trims"
