"""Each next step of an alert has a page or an operation that exists."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.urls import resolve
from django.utils.translation import override

from console.next_steps import POSTED, START_LABELS, buttons
from controlplane.domain.next_step import NextStep, StepKind
from controlplane.selectors import next_steps as selectors

ADMINISTRATOR = User(username="administrator", is_staff=True, is_superuser=True)
TARGETS = {
    StepKind.DEMOTE_BROKER: ["2", "3"],
    StepKind.START_PROCESS: ["broker-2"],
    StepKind.PROPOSE_ELECTION: ["orders", "0"],
    StepKind.OPEN_PARTITION: ["orders", "0"],
    StepKind.RECOVER_REPLICA: ["orders", "0", "2"],
    StepKind.OPEN_FILLING_MOVE: ["7", "2", "101000000"],
    StepKind.PLAN_AGAIN: ["7", "topic", "topic=orders", "over=2", "over=3"],
    StepKind.READ_RECORD: ["orders", "0", "77"],
    StepKind.RAISE_RETENTION: ["orders"],
    StepKind.MOVE_OFF_BROKER: ["2", "orders", "0=1,3", "7=4,1"],
    StepKind.OPEN_TOPIC: ["orders"],
    StepKind.OPEN_GROUP: ["a/b"],
    StepKind.OPEN_DOCUMENT_DRIFT: ["2", "shop.toml"],
    StepKind.CHECK_PERMISSION: ["User:alice", "10.0.0.1", "TOPIC", "orders", "WRITE"],
    StepKind.RESTART_TASK: ["main", "sink", "0"],
    StepKind.RESTART_FAILED: ["main", "sink"],
    StepKind.OPEN_CONNECTOR: ["main", "sink"],
    StepKind.OPEN_CONNECT: ["main"],
}


@pytest.mark.parametrize("kind", list(StepKind))
def test_each_step_has_an_address(kind: StepKind) -> None:
    (button,) = buttons([NextStep(kind, "label", TARGETS.get(kind, ["2"]))], ADMINISTRATOR)
    assert resolve(urlsplit(button.url).path).func is not None
    assert button.label == "label" and button.posts == (kind in POSTED) and button.usable


@pytest.mark.parametrize("kind", list(StepKind))
def test_each_step_is_chinese_on_a_chinese_page(kind: StepKind) -> None:
    with override("zh-hans"):
        (button,) = buttons([NextStep(kind, "label", TARGETS.get(kind, ["2"]))], ADMINISTRATOR)
    assert re.search("[\u4e00-\u9fff]", button.label), button.label


def test_a_move_that_fills_a_disk_says_how_much_is_left() -> None:
    known, unknown = buttons(
        [NextStep(StepKind.OPEN_FILLING_MOVE, "Open move 7", ["7", "2", left]) for left in ("101000000", "")],
        ADMINISTRATOR,
    )
    assert known.url == "/moves/7/" and known.hint == "It copies replicas to broker 2: 101 MB are left."
    assert "unknown" in unknown.hint


def test_the_record_at_the_committed_offset_is_read_directly() -> None:
    (button,) = buttons([NextStep(StepKind.READ_RECORD, "x", ["orders", "0", "77"])], ADMINISTRATOR)
    assert button.url == "/messages/?topic=orders&partitions=0&start=offset&offset=77&limit=1"


def test_a_full_disk_leads_to_the_review_of_a_move_and_to_the_fields_of_retention() -> None:
    """The rebalance by disk said "Nothing to move", and the form of the topic had 42 other fields first."""
    move, retention = buttons(
        [
            NextStep(StepKind.MOVE_OFF_BROKER, "x", ["2", "orders", "0=1,3", "7=4,1"]),
            NextStep(StepKind.RAISE_RETENTION, "x", ["orders"]),
        ],
        ADMINISTRATOR,
    )
    assert move.url == "/moves/new/?kind=partitions&topic=orders&step=review&p=0&p=7&r0=1%2C3&r7=4%2C1"
    assert retention.url == "/topics/orders/alter/?config=retention.bytes&config=retention.ms"


def test_a_process_to_start_has_the_name_of_the_glossary() -> None:
    names = ("broker-3", "zookeeper", "controller-1", "worker")
    steps = [NextStep(StepKind.START_PROCESS, "x", [name]) for name in names]
    with override("zh-hans"):
        assert [b.label for b in buttons(steps, ADMINISTRATOR)] == [
            "启动 Broker 3",
            "启动 ZooKeeper",
            "启动 Controller 1",
            "启动 Worker",
        ]


def test_the_label_of_a_start_is_one_text_in_the_selector_and_in_the_console() -> None:
    assert {kind: str(label) for kind, label in START_LABELS.items()} == selectors.START_LABELS


def test_a_rejected_move_leads_to_the_review_of_the_same_move() -> None:
    """The roll back of a move without a moved partition was offered, and changed nothing."""
    topic, rack = buttons(
        [
            NextStep(StepKind.PLAN_AGAIN, "x", ["7", "topic", "topic=orders", "over=2", "over=3"]),
            NextStep(StepKind.PLAN_AGAIN, "x", ["7", "drain", "rack=b1"]),
        ],
        ADMINISTRATOR,
    )
    assert topic.url == "/moves/new/?kind=topic&step=review&topic=orders&over=2&over=3"
    assert rack.url == "/moves/new/?kind=drain&step=review&broker=rack%3Ab1"
