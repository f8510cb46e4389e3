"""Transactions with a marker, when no broker answers. `tests/cluster/test_retries.py` has those with brokers."""

from __future__ import annotations

import pytest

from controlplane.clients import transactional_producer as client
from controlplane.clients.connection import NoResponse
from controlplane.clients.transactional_producer import TransactionEnd, TransactionMarker
from controlplane.domain.produce import NewRecord

MARKER = TransactionMarker("g", "t.dead", 0, 1, "batch 1")
NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


def test_without_brokers_nothing_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "STEP_SECONDS", 0.2)
    result = client.send_once("id", "t", [NewRecord(b"k", b"v")], MARKER, **NOBODY)
    assert result.end is TransactionEnd.ABORTED and result.problem and not result.records


def test_without_brokers_a_marker_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "STEP_SECONDS", 0.2)
    with pytest.raises(NoResponse):
        client.find_marker("id", MARKER, **NOBODY)
