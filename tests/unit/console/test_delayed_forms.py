"""The form of a look-up of pending delayed messages."""

from __future__ import annotations

import pytest

from console.delayed_forms import PendingForm
from controlplane.services import Rejected


def test_texts_become_bytes_and_milliseconds() -> None:
    form = PendingForm({"key": "a", "due_from": "2026-11-25T18:00:00", "due_until": "2026-11-26", "partition": "2"})
    assert form.is_valid(), form.errors
    assert form.requested_key() == b"a"
    assert form.pending_filter() == {
        "partition": 2,
        "from_ms": 1_795_629_600_000,
        "to_ms": 1_795_651_200_000,
        "token": "",
    }
    form = PendingForm({"key": "0x6162", "key_format": "hex"})
    assert form.is_valid() and form.requested_key() == b"ab"
    form = PendingForm({})
    assert form.is_valid() and form.requested_key() is None


def test_a_rejection_is_next_to_its_field() -> None:
    form = PendingForm({"key": "xyz", "key_format": "hex", "due_until": "tomorrow"})
    assert not form.is_valid() and set(form.errors) == {"due_until"}
    with pytest.raises(Rejected) as rejection:
        form.requested_key()
    form.reject(rejection.value)
    form.reject(Rejected("Not before.", "from_ms"))
    assert set(form.errors) == {"due_until", "key", "due_from"}
