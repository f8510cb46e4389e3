"""The object of a change in the audit log."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from console import change_objects


@pytest.mark.parametrize(
    ("kind", "name", "shown"),
    [
        ("topic", "orders", '<a href="/topics/orders/">orders</a>'),
        ("move", "7", '<a href="/moves/7/">7</a>'),
        ("move", "not a number", "not a number"),
        ("broker", "2", '<a href="/brokers/2/">2</a>'),
        ("restart", "4", '<a href="/brokers/restarts/4/">4</a>'),
        ("topic", "all topics", "all topics"),
        ("scram", "SCRAM-SHA-512:billing", '<a href="/users/billing/">SCRAM-SHA-512:billing</a>'),
        ("scram", "billing", '<a href="/users/billing/">billing</a>'),
        ("acl", "7", "7"),
        ("topic", "", ""),
    ],
)
def test_the_object_of_a_change_is_a_link_if_it_has_a_page(kind: str, name: str, shown: str) -> None:
    assert (
        change_objects.object_link(SimpleNamespace(verb=f"{kind}.create", object_kind=kind, object_name=name)) == shown
    )


@pytest.mark.parametrize("verb", ["group.configs", "group.set"])
def test_a_change_of_the_configs_of_a_group_links_to_them(verb: str) -> None:
    """The object may be a share group, which the page of consumer groups does not know."""
    shown = change_objects.object_link(SimpleNamespace(verb=verb, object_kind="group", object_name="team/workers"))
    assert shown == '<a href="/group-configs/team/workers/">team/workers</a>'


@pytest.mark.parametrize(
    ("kind", "name", "shown"),
    [
        ("alert", "group_falling_behind slow-reader", "group falling behind slow-reader"),
        ("alert", "anomaly", "anomaly"),
        ("alert", "6", "6"),
        ("threshold", "disk_free_low", "Free disk space: degraded"),
        ("threshold", "of an old version", "of an old version"),
        ("proposal", "move.approve 2", "move against a safety rule (2)"),
        ("anomaly", "topic.records_per_s", "Records in per second of a topic"),
        ("topic", "anomaly", "anomaly"),
    ],
)
def test_stored_codes_are_words(kind: str, name: str, shown: str) -> None:
    assert change_objects.object_text(SimpleNamespace(verb="", object_kind=kind, object_name=name)) == shown
