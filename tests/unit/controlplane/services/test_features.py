"""Finalized features are stored for a recreated metadata log."""

from __future__ import annotations

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import FeatureFinalised
from controlplane.controller.database import TermStarted
from controlplane.controller.events import (
    DesiredRead,
)
from controlplane.services import features
from tests.unit.controlplane.controller.test_database import CoreHarness

pytestmark = pytest.mark.django_db


def test_finalised_features_are_stored_for_a_recreated_log(db: None) -> None:
    core_harness = CoreHarness()

    def term(epoch: int) -> DesiredRead:
        core_harness.thread._handle(TermStarted(epoch))
        core_harness.posted.clear()
        core_harness.thread._poll(epoch)
        (read,) = core_harness.posted
        assert isinstance(read, DesiredRead)
        return read

    assert term(6).features == {}
    for level in (1, 2):
        core_harness.thread.on_applied(
            core_harness.thread.image or Image(), (FeatureFinalised("transaction.version", level),)
        )
        core_harness.thread._handle(core_harness.thread._commands.get())
        core_harness.thread._poll(6)
    assert term(7).features == {"transaction.version": 2}, "though this log says nothing of it"
    assert core_harness.thread.image is not None
    core_harness.thread.image.features["transaction.version"] = 0
    assert term(8).features == {"transaction.version": 0}, "an older database follows the log"
    features.remember("transaction.version", 2, 7)
    assert features.stored_levels() == {"transaction.version": 0}, "a controller of an earlier epoch changes nothing"
