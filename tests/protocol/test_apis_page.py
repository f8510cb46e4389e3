"""docs/apis.md compares the supported versions with Kafka 3.9. Each missing version has a reason."""

from __future__ import annotations

import pytest

from brokerd.wire.apis import ABSENT, APIS
from tests.protocol.apis_page import PAGE, gaps, render
from tests.protocol.kafka_3_9 import KAFKA_3_9


def test_the_page_matches_the_tables() -> None:
    assert PAGE.read_text() == render(), "generate it again: python -m tests.protocol.apis_page"


def test_an_api_of_kafka_is_served_or_named_as_absent_never_both() -> None:
    assert sorted(KAFKA_3_9.keys() - APIS.keys() - ABSENT.keys()) == [], "neither served nor listed as absent"
    assert sorted(ABSENT.keys() & APIS.keys()) == [], "served, and listed as absent"
    assert sorted(ABSENT.keys() - KAFKA_3_9.keys()) == []


@pytest.mark.parametrize("key", sorted(KAFKA_3_9), ids=lambda k: KAFKA_3_9[k].name)
def test_each_missing_version_has_a_reason(key: int) -> None:
    published, api = KAFKA_3_9[key], APIS.get(key)
    narrower = api is None or api.min_version > published.low or api.max_version < published.high
    assert not narrower or all(gaps(key) or [""])
    if api is not None and api.max_version < published.high:
        assert str(published.high) in api.gaps, "the gap does not name the version that is missing"
    if api is not None and api.min_version > published.low:
        assert api.min_version == published.kept_from or str(published.low) in api.gaps


def test_the_oldest_clients_of_kafka_4_are_served() -> None:
    """Kafka 4 removed the versions below its lowest too (KIP-896). No other low version may be missing."""
    assert {
        k: (a.min_version, KAFKA_3_9[k].kept_from)
        for k, a in APIS.items()
        if k in KAFKA_3_9 and a.min_version > (KAFKA_3_9[k].kept_from or 0)
    } == {}
