"""Configs in the metadata log: the configs that users set, overlaid by the throttles of moves."""

from __future__ import annotations

from collections.abc import Mapping

from brokerd.cluster.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    VALUE_CHARACTERS_MAX,
)

RATES, LISTS = (LEADER_RATE, FOLLOWER_RATE), (LEADER_REPLICAS, FOLLOWER_REPLICAS)


def apply_overlay(configs: Mapping[str, str], overlay: Mapping[str, str] | None) -> dict[str, str]:
    """The configs for the metadata log. Rates of the overlay take precedence; replica lists are joined."""
    out = dict(configs)
    for name, value in (overlay or {}).items():
        out[name] = join_replica_lists(out.get(name, ""), value) if name in LISTS else value
    return out


def join_replica_lists(*texts: str) -> str:
    items = sorted({i.strip() for t in texts for i in t.split(",") if i.strip()})
    text = "*" if "*" in items else ",".join(items)
    return text if len(text) <= VALUE_CHARACTERS_MAX else "*"
