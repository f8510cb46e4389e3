"""The button that makes a follower the leader."""

from __future__ import annotations

import html
import re
from typing import Any

from django.test import Client

from controlplane.models import ObservedPartition
from tests.unit.controlplane.world import World


def make_leader_links(operator: Client) -> list[str]:
    """The addresses of the buttons on the page of cargo-0."""
    page = operator.get("/topics/cargo/0/").content.decode()
    return [html.unescape(a) for a in re.findall(r'href="([^"]+)"[^>]*>Make leader<', page)]


def test_an_in_sync_follower_becomes_leader_by_a_move_that_copies_nothing(
    seeded_cluster: dict[str, Any], world: World, operator: Client
) -> None:
    world.topic("cargo", (1, 2, 3))
    ObservedPartition.objects.filter(topic__name="cargo").update(isr=[1, 2])
    (address,) = make_leader_links(operator)
    assert address == "/moves/new/?kind=partitions&step=review&topic=cargo&p=0&r0=2%2C1%2C3"
    review = re.sub(r"\s+", " ", operator.get(address).content.decode())
    assert "Reorder the replicas of 1 partition" in review and "No data is copied. The first broker" in review


def test_the_preferred_leader_is_elected(seeded_cluster: dict[str, Any], world: World, operator: Client) -> None:
    world.topic("cargo", (1, 2))
    ObservedPartition.objects.filter(topic__name="cargo").update(leader=2)
    assert make_leader_links(operator) == ["/brokers/leader-elections/?topic=cargo&partition=0"]


def test_a_partition_that_is_reassigned_or_without_a_leader_has_no_button(
    seeded_cluster: dict[str, Any], world: World, operator: Client
) -> None:
    world.topic("cargo", (1, 2))
    ObservedPartition.objects.filter(topic__name="cargo").update(adding=[3])
    assert make_leader_links(operator) == []
    ObservedPartition.objects.filter(topic__name="cargo").update(adding=[], leader=None)
    assert make_leader_links(operator) == []
