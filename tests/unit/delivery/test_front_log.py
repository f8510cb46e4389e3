"""The journals of the targets are distinguished by the keys of their control records."""

from __future__ import annotations

from brokerd.delivery.front_log import FrontTarget, journal_entries, journal_key
from brokerd.delivery.journal import Confirmation, ProducerIdentity, encode
from brokerd.wire import end_transaction_marker, records
from brokerd.wire.end_transaction_marker import Marker
from brokerd.wire.records import Record


def test_entries_name_their_target_and_markers_have_none() -> None:
    entry = Confirmation(ProducerIdentity(7, 0), 3)
    targets = (FrontTarget.EXPIRED, FrontTarget.TOPIC)
    batch = records.build([Record(i, 1, journal_key(t), encode(entry)) for i, t in enumerate(targets)], control=True)
    assert journal_entries(batch, 0, records.peek(batch)) == [(t, entry) for t in targets]
    marker = bytes(end_transaction_marker.marker(1, 0, Marker(True, 0), 1_000))
    assert journal_entries(marker, 0, records.peek(marker)) == []
