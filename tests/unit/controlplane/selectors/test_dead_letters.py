"""The topics of the convention, and which dead letters were sent again."""

from __future__ import annotations

import pytest

from controlplane.domain.masking import RecordRenderer
from controlplane.models import DeadLetterBatch, SentDeadLetter, Topic
from controlplane.selectors import dead_letters as selectors
from controlplane.selectors.messages import message_row
from tests.unit.controlplane.dead_letter_responses import DLQ, letter, patch_responses, patch_share_responses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_the_topics_of_the_convention_name_their_topic(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    patch_responses(monkeypatch, world)
    of = selectors.dead_letter_topic("orders")
    assert of is not None and (of.topic, of.dead_topic, of.retry_topic) == ("orders", "orders.dead", "orders.retry")
    assert selectors.dead_letter_topic("orders.retry") is None
    Topic.objects.filter(name="orders.retry").delete()
    of = selectors.dead_letter_topic("orders")
    assert of is not None and of.retry_topic is None


def test_each_sending_of_a_dead_letter_is_shown(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    patch_responses(monkeypatch, world)
    of = selectors.dead_letter_topic("orders")
    assert of is not None
    for target, state in (("orders", "sent"), ("orders.retry", "sending")):
        batch = DeadLetterBatch.objects.create(
            topic=of.dead_topic, topic_id=of.topic_id, partition=0, target=target, actor="olga", state=state
        )
        SentDeadLetter.objects.create(batch=batch, topic_id=of.topic_id, partition=0, offset=1, target=target)
    rows = [message_row(p, letter(o), RecordRenderer("orders.dead")) for p, o in ((0, 1), (0, 2), (1, 1))]
    found = selectors.with_causes(of, rows)
    assert [[(s.target, s.state, s.actor) for s in r.sent] for r in found] == [
        [("orders", "sent", "olga"), ("orders.retry", "sending", "olga")],
        [],
        [],
    ]
    assert found[0].cause.group == "billing"


def test_a_dead_letter_topic_of_share_groups_has_its_own_page(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    patch_share_responses(monkeypatch, world)
    of = selectors.dead_letter_topic(DLQ)
    assert of is not None and of.of_share_groups and (of.topic, of.dead_topic, of.retry_topic) == (DLQ, DLQ, None)
    assert selectors.dead_letter_topic("orders") is None
    Topic.objects.filter(name=DLQ).update(configs={"errors.deadletterqueue.group.enable": "false"})
    assert selectors.dead_letter_topic(DLQ) is None
