"""docs/apis.md compares the supported versions with Kafka 4.3. Each missing version has a reason."""

from __future__ import annotations

import pytest

from brokerd.wire.apis import ABSENT, APIS
from tests.protocol.apis_page import PAGE, gaps, render
from tests.protocol.kafka_4_3 import KAFKA_4_3


def test_the_page_matches_the_tables() -> None:
    assert PAGE.read_text() == render(), "generate it again: python -m tests.protocol.apis_page"


def test_an_api_of_kafka_is_served_or_named_as_absent_never_both() -> None:
    assert sorted(KAFKA_4_3.keys() - APIS.keys() - ABSENT.keys()) == [], "neither served nor listed as absent"
    assert sorted(ABSENT.keys() & APIS.keys()) == [], "served, and listed as absent"
    assert sorted((APIS.keys() | ABSENT.keys()) - KAFKA_4_3.keys()) == []


@pytest.mark.parametrize("key", sorted(KAFKA_4_3), ids=lambda k: KAFKA_4_3[k].name)
def test_each_missing_version_has_a_reason(key: int) -> None:
    published, api = KAFKA_4_3[key], APIS.get(key)
    if api is None:
        assert all(gaps(key))
        return
    assert api.name == published.name
    assert api.max_version <= published.high, "a version that Kafka does not have"
    if api.max_version < published.high:
        assert str(published.high) in api.gaps, "the gap does not name the version that is missing"
    if api.min_version > published.low:
        assert str(published.low) in api.gaps, "the gap does not name the version that is missing"
