"""An operator cancels a delayed message: rejections, the tombstone, and the outcome that the leader confirms."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.exceptions import PermissionDenied

from controlplane.domain.produce import NewRecord, ProducedRecord
from controlplane.models import Change
from controlplane.services import Rejected
from controlplane.services import delayed_messages as services
from tests.unit.controlplane.delayed_responses import HOUR_MS, NOW_MS, DelayedResponses, patch_responses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> DelayedResponses:
    monkeypatch.setattr(services, "CONFIRM_SECONDS", 0.0)
    return patch_responses(monkeypatch, world)


def user(name: str, *permissions: str) -> Any:
    made = get_user_model().objects.create_user(name, password="x", is_staff=True)
    made.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return get_user_model().objects.get(pk=made.pk)


@pytest.fixture
def olga(responses: DelayedResponses) -> Any:
    return user("olga", "produce_records", "read_records")


def cancel_message(who: Any, partition: int = 0, offset: int = 3) -> services.CancelResult:
    result = services.cancel(who, "orders", partition, offset, comment="paid twice")
    assert result is not None
    return result


def test_a_tombstone_with_the_key_is_written_and_confirmed(olga: Any, responses: DelayedResponses) -> None:
    preview = services.preview_cancel(olga, "orders", 0, 3)
    assert preview is not None and (preview.key, preview.same_key, preview.more) == ("a", 2, False)
    assert preview.deliver_at_ms == NOW_MS + HOUR_MS and not responses.written
    result = cancel_message(olga)
    assert (result.state, result.cancelled, result.tombstone_offset) == ("cancelled", 2, 100)
    assert responses.written == [("orders.delay", NewRecord(key=b"a", partition=0))]
    change = Change.objects.get(verb="delayed.cancel")
    assert (change.actor, change.object_name, change.outcome) == ("olga", "orders.delay", "confirmed")
    assert change.after["offset"] == 3 and change.after["key"] == "a" and change.after["cancelled"] == 2
    with pytest.raises(Rejected, match="cancelled already"):
        cancel_message(olga)


def test_a_message_that_is_not_pending_is_rejected(olga: Any, responses: DelayedResponses) -> None:
    for partition, offset, reason in (
        (9, 3, "does not exist"),
        (0, 99, "was delivered or cancelled"),
        (0, 6, "has no key"),
        (0, 7, "cancelled already"),
    ):
        with pytest.raises(Rejected, match=reason):
            services.preview_cancel(olga, "orders", partition, offset)
        with pytest.raises(Rejected, match=reason):
            cancel_message(olga, partition, offset)
    responses.rejected = {0}
    with pytest.raises(Rejected, match="unknown now: Its leader rejected"):
        cancel_message(olga)
    assert not responses.written and Change.objects.filter(outcome="refused").count() == 5
    assert services.cancel(olga, "plain", 0, 3, comment="x") is None
    with pytest.raises(Rejected, match="Give a reason"):
        services.cancel(olga, "orders", 0, 3, comment=" ")


def test_the_outcome_is_the_confirmation_of_the_leader(olga: Any, responses: DelayedResponses) -> None:
    responses.ignores_cancel = True
    assert cancel_message(olga).state == "unknown"
    responses.result = ProducedRecord(0, None, "Refused.")
    assert cancel_message(olga).state == "refused"
    responses.result = ProducedRecord(0, None, "No response.", unknown=True)
    assert cancel_message(olga).state == "unknown"
    outcomes = Change.objects.filter(verb="delayed.cancel").order_by("pk").values_list("outcome", flat=True)
    assert list(outcomes) == ["confirmed", "refused", "unknown"]


def test_a_record_that_was_due_meanwhile_is_not_called_cancelled(
    olga: Any, responses: DelayedResponses, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce = responses.produce

    def deliver(topic: str, records: list[NewRecord], **rest: Any) -> list[ProducedRecord]:
        made = produce(topic, records, **rest)
        responses.waiting[0] = []
        return made

    monkeypatch.setattr("controlplane.clients.producer.produce", deliver)
    assert cancel_message(olga).state == "due"


def test_permissions(responses: DelayedResponses) -> None:
    with pytest.raises(PermissionDenied, match="produce_records"):
        services.cancel(user("anna", "read_records"), "orders", 0, 3, comment="x")
    pia = user("pia", "produce_records")
    preview = services.preview_cancel(pia, "orders", 0, 3)
    assert preview is not None and preview.key is None, "the key needs read_records"
    with pytest.raises(PermissionDenied, match="read_records"):
        services.look_up(pia, "orders", key=b"a")
    assert Change.objects.get(verb="delayed.look_up").outcome == "refused"
    found = services.look_up(pia, "orders")
    assert found is not None and len(found.rows) == 5
