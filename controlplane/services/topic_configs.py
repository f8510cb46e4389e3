"""What a topic's overrides mean, for checks and pages. Law: defaults come from `brokerd.cluster.configs`, nowhere else."""

from __future__ import annotations

from collections.abc import Mapping


def min_insync(configs: Mapping[str, str]) -> int:
    """`min.insync.replicas` of a topic with these overrides."""
    try:
        return int(configs.get("min.insync.replicas", "1"))
    except ValueError:
        return 1
