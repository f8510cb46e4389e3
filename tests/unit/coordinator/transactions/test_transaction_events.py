"""Events and effects of a transactional id: each event is handled, and no event or effect can be changed after it was made."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any, get_args

import pytest

from brokerd.cluster.model import Now
from brokerd.coordinator.transactions import transaction_events as events
from brokerd.coordinator.transactions.transaction import Transaction
from brokerd.wire.errors import ErrorCode

EVENTS: dict[type, Any] = {
    events.Init: events.Init("token", 1_000, 8),
    events.Add: events.Add("token", 7, 0, frozenset({("t", 0)})),
    events.End: events.End("token", 7, 0, commit=True),
    events.TransactionPersisted: events.TransactionPersisted(1),
    events.TransactionPersistFailed: events.TransactionPersistFailed(1, ErrorCode.NOT_COORDINATOR),
    events.MarkersWritten: events.MarkersWritten(0),
    events.TransactionTick: events.TransactionTick(),
}


def test_every_event_is_handled() -> None:
    assert set(EVENTS) == set(get_args(events.Event))
    for event in EVENTS.values():
        effects = Transaction("id", events.TransactionMetadata(7, epoch=0)).handle(event, Now(1, 1))
        assert all(isinstance(effect, get_args(events.Effect)) for effect in effects)


@pytest.mark.parametrize("event", EVENTS.values(), ids=lambda e: type(e).__name__)
def test_an_event_is_not_changed(event: Any) -> None:
    with pytest.raises((FrozenInstanceError, TypeError, AttributeError)):
        event.token = "another"


def test_a_state_is_prepared_or_complete_or_neither() -> None:
    assert not set(events.PREPARED) & set(events.COMPLETE)
    assert {s.value.removeprefix("Prepare") for s in events.PREPARED} == {
        s.value.removeprefix("Complete") for s in events.COMPLETE
    }
