"""Configs that users set, overlaid by the throttles of moves."""

from __future__ import annotations

from brokerd.cluster.configs import FOLLOWER_RATE, LEADER_REPLICAS, VALUE_CHARACTERS_MAX
from controlplane.domain.config_overlay import apply_overlay, join_replica_lists


def test_a_rate_of_the_overlay_takes_precedence_and_replica_lists_are_joined() -> None:
    configs = {FOLLOWER_RATE: "5", LEADER_REPLICAS: "0:1,1:2", "retention.ms": "9"}
    overlay = {FOLLOWER_RATE: "7", LEADER_REPLICAS: "1:2,0:3"}
    assert apply_overlay(configs, overlay) == {FOLLOWER_RATE: "7", LEADER_REPLICAS: "0:1,0:3,1:2", "retention.ms": "9"}


def test_without_an_overlay_the_configs_are_copied_unchanged() -> None:
    configs = {"retention.ms": "9"}
    found = apply_overlay(configs, None)
    assert found == configs and found is not configs


def test_all_replicas_include_every_list() -> None:
    assert join_replica_lists("0:1", "*", "") == "*"
    assert join_replica_lists("", " ", ",") == ""


def test_a_list_that_is_too_long_for_a_config_becomes_all_replicas() -> None:
    items = [f"{i}:1" for i in range(VALUE_CHARACTERS_MAX)]
    assert join_replica_lists(",".join(items)) == "*"
