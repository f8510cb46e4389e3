"""Cluster features: the controller finalises all features of a request or none, and brokers return them in ApiVersions."""

from __future__ import annotations

import pytest

from brokerd.cluster import features
from brokerd.cluster.features import SAFE_DOWNGRADE, SHARE_VERSION, UPGRADE
from brokerd.cluster.image import Image
from brokerd.cluster.levels import FEATURE, LEVEL_MAX
from brokerd.cluster.metadata import FeatureFinalised, MetadataLevelRaised, RequestCompleted
from brokerd.cluster.model import Now
from brokerd.cluster.znodes import Registration
from controlplane.controller.core import Core
from controlplane.controller.events import (
    AppendMetadata,
    BrokersSeen,
    DesiredRead,
    Elected,
    LogEntryAppended,
    LoggedChange,
    Requested,
)
from tests.unit.stored_requests import forwarded_request

NOW = Now(1, 1)
TV = "transaction.version"


class CoreHarness:
    """An active controller. Every broker reads the metadata log up to level `reads`."""

    def __init__(self, level: int = LEVEL_MAX, reads: int = LEVEL_MAX) -> None:
        self.image = Image(cluster_id="c", metadata_version=level)
        self.core = Core(self.image, "c")
        self.core.handle(Elected(1), NOW)
        self.core.handle(DesiredRead(complete=True), NOW)
        one = Registration(1, "u", "h", 1, None, None, True, None, 11, (1, reads))
        self.core.handle(BrokersSeen({1: one}), NOW)
        self.core.in_flight = False
        self.changes: list[LoggedChange] = []
        self.number = 0

    def send_request(self, *wanted: tuple[str, int, int], validate_only: bool = False) -> dict[str, int]:
        items = [{"name": n, "level": level, "upgrade_type": kind} for n, level, kind in wanted]
        payload = {"topics": items, "validate_only": validate_only, "principal": "User:ann"}
        self.number += 1
        request = forwarded_request(f"r{self.number}", 1, 11, "update_features", payload)
        effects = self.core.handle(Requested(request), NOW)
        (append,) = [e for e in effects if isinstance(e, AppendMetadata)]
        self.records = [r for r in append.records if isinstance(r, FeatureFinalised | MetadataLevelRaised)]
        for record in append.records:
            self.image.apply(record)
        effects = self.core.handle(LogEntryAppended(append.records), NOW)
        self.changes += [e for e in effects if isinstance(e, LoggedChange)]
        (response,) = [r for r in append.records if isinstance(r, RequestCompleted)]
        return {r["name"]: r["error"] for r in response.result["results"]}


def test_a_feature_is_finalised_upgraded_and_downgraded() -> None:
    core_harness = CoreHarness()
    assert core_harness.send_request((TV, 2, UPGRADE)) == {TV: 0}
    assert core_harness.image.features == {TV: 2}
    assert core_harness.send_request((TV, 1, UPGRADE)) == {TV: 95}
    assert core_harness.send_request((TV, 1, SAFE_DOWNGRADE)) == {TV: 0}
    assert core_harness.send_request((TV, 2, SAFE_DOWNGRADE)) == {TV: 95}
    assert core_harness.image.features == {TV: 1}
    assert [(c.actor, c.object_name, c.before, c.after) for c in core_harness.changes] == [
        ("User:ann at broker 1", TV, {"level": 0}, {"level": 2}),
        ("User:ann at broker 1", TV, {"level": 2}, {"level": 1}),
    ]


def test_the_current_level_succeeds_and_writes_nothing() -> None:
    core_harness = CoreHarness()
    core_harness.send_request((TV, 2, UPGRADE))
    assert core_harness.send_request((TV, 2, UPGRADE)) == {TV: 0}
    assert (core_harness.records, len(core_harness.changes)) == ([], 1)


@pytest.mark.parametrize(
    ("name", "level", "message"),
    [
        ("no.such", 1, "unknown feature"),
        (TV, 3, "levels 0 to 2"),
        (SHARE_VERSION, 0, "always at 1"),
        (TV, -1, "levels 0 to 2"),
        ("metadata.version", 7, "unknown feature"),
    ],
)
def test_unsupported_features_and_levels_are_rejected(name: str, level: int, message: str) -> None:
    assert message in (features.problem(name, level, UPGRADE, 0, LEVEL_MAX) or "")
    assert CoreHarness().send_request((name, level, UPGRADE)) == {name: 95}


def test_a_request_is_atomic() -> None:
    core_harness = CoreHarness()
    assert core_harness.send_request((TV, 2, UPGRADE), ("no.such", 1, UPGRADE)) == {TV: 96, "no.such": 95}
    assert core_harness.image.features == {}


def test_validation_changes_nothing() -> None:
    core_harness = CoreHarness()
    assert core_harness.send_request((TV, 2, UPGRADE), validate_only=True) == {TV: 0}
    assert core_harness.image.features == {}


def test_the_level_of_the_log_can_be_raised_in_the_same_request() -> None:
    core_harness = CoreHarness(level=3)
    assert core_harness.send_request((TV, 2, UPGRADE)) == {TV: 95}
    assert core_harness.send_request((TV, 2, UPGRADE), (FEATURE, 4, UPGRADE)) == {TV: 0, FEATURE: 0}
    assert core_harness.records == [MetadataLevelRaised(4), FeatureFinalised(TV, 2)], "in this order"
    assert core_harness.send_request((FEATURE, 3, SAFE_DOWNGRADE)) == {FEATURE: 95}, (
        "the level of the log is never lowered"
    )


def test_a_broker_that_cannot_read_the_level_prevents_the_upgrade() -> None:
    core_harness = CoreHarness(level=3, reads=3)
    assert core_harness.send_request((FEATURE, 4, UPGRADE), (TV, 2, UPGRADE)) == {FEATURE: 95, TV: 96}


def test_features_are_in_snapshots() -> None:
    image = Image(cluster_id="c", metadata_version=LEVEL_MAX)
    image.apply(FeatureFinalised(TV, 2))
    assert Image.from_records(image.records(), 1, "", 1).features == {TV: 2}


def test_only_a_recreated_log_gets_the_features_of_the_database() -> None:
    def term(image_features: dict[str, int], remembered: dict[str, int], level: int = LEVEL_MAX) -> CoreHarness:
        core_harness = CoreHarness(level)
        core_harness.image.features.update(image_features)
        effects = core_harness.core.handle(DesiredRead(complete=True, features=remembered), NOW)
        for append in [e for e in effects if isinstance(e, AppendMetadata)]:
            for record in append.records:
                core_harness.image.apply(record)
            core_harness.core.handle(LogEntryAppended(append.records), NOW)
        return core_harness

    assert term({}, {TV: 2}).image.features == {TV: 2}
    assert term({TV: 1}, {TV: 2}).image.features == {TV: 1}, "an older database"
    assert term({TV: 0}, {TV: 2}).image.features == {TV: 0}, "lowered by name"
    assert term({}, {"no.such": 1, TV: 9}).image.features == {}, "written by a newer program"
    early = term({}, {TV: 2}, level=3)
    assert early.image.features == {}
    early.image.metadata_version = 4
    (append,) = early.core.handle(DesiredRead(), NOW)
    assert isinstance(append, AppendMetadata)
    assert append.records == (FeatureFinalised(TV, 2),), "as soon as the level of the log is raised"


def test_a_client_request_overrides_the_database() -> None:
    core_harness = CoreHarness()
    core_harness.core.in_flight = True
    core_harness.core.handle(DesiredRead(complete=True, features={TV: 1}), NOW)
    core_harness.core.in_flight = False
    core_harness.send_request((TV, 2, UPGRADE))
    assert core_harness.image.features == {TV: 2}
