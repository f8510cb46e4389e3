"""The list of other consoles, their values, and when values are not current."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controlplane.domain.other_cluster import (
    CLUSTERS_MAX,
    STALE_S,
    ClusterProblem,
    metrics_of,
    parse_consoles,
    problem_now,
)

FOLDER = Path("/etc/weir")
COLOURS = ("none", "red")
ENTRY = {"name": "production", "url": "https://weir.example.org/", "colour": "red", "token": "weir_abc"}
OVERVIEW: dict[str, Any] = {
    "cluster_name": "production",
    "health": {"word": "degraded", "reason": "2 partitions under-replicated"},
    "brokers_alive": 2,
    "brokers_total": 3,
    "under_replicated": 2,
    "offline": 0,
    "alerts": 3,
    "alerts_at_risk": 1,
    "age_s": 1.5,
}


def test_a_console_is_parsed() -> None:
    (found,) = parse_consoles([ENTRY], COLOURS, FOLDER)
    assert (found.name, found.url, found.colour, found.token) == (
        "production",
        "https://weir.example.org",
        "red",
        "weir_abc",
    )
    assert "weir_abc" not in repr(found)
    entry = {"name": "b", "url": "http://127.0.0.1:19090", "token_file": "b.token", "ca_file": "ca.pem"}
    (found,) = parse_consoles([entry], COLOURS, FOLDER)
    assert (found.colour, found.token, found.ca_file) == ("none", "@/etc/weir/b.token", "/etc/weir/ca.pem")


@pytest.mark.parametrize(
    ("entries", "error"),
    [
        ({"name": "a"}, "must be a list"),
        (["a"], "Cluster 1 must have"),
        ([{**ENTRY, "color": "red"}], "unknown keys: color"),
        ([{**ENTRY, "name": ""}], "needs a name"),
        ([{**ENTRY, "url": "http://weir.example.org"}], "must begin with https://"),
        ([{**ENTRY, "url": "https://x/?a=b"}], "must begin with https://"),
        ([{**ENTRY, "colour": "pink"}], "allowed: none, red"),
        ([{**ENTRY, "token": ""}], "needs token or token_file"),
        ([{**ENTRY, "token_file": "a"}], "needs token or token_file"),
        ([ENTRY, ENTRY], "same name"),
        ([{**ENTRY, "name": f"c{n}"} for n in range(CLUSTERS_MAX + 1)], "at most"),
    ],
)
def test_a_wrong_file_is_rejected_with_the_reason(entries: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_consoles(entries, COLOURS, FOLDER)


def test_metrics_of_an_overview() -> None:
    found = metrics_of(OVERVIEW)
    assert (found.health, found.alerts_at_risk, found.alerts_degraded, found.age_s) == ("degraded", 1, 2, 1.5)
    assert metrics_of({**OVERVIEW, "age_s": None}).age_s is None


@pytest.mark.parametrize(
    "response",
    [None, [], "", {}, {**OVERVIEW, "health": {"word": "fine", "reason": ""}}, {**OVERVIEW, "offline": "many"}],
)
def test_another_response_is_no_overview(response: Any) -> None:
    with pytest.raises(ValueError):
        metrics_of(response)


def test_an_old_response_is_not_current() -> None:
    assert problem_now(ClusterProblem.NONE, 1.0) == ClusterProblem.NONE
    assert problem_now(ClusterProblem.NONE, STALE_S + 1) == ClusterProblem.OLD
    assert problem_now(ClusterProblem.NONE, None) == ClusterProblem.NOT_READ
    assert problem_now(ClusterProblem.TIMEOUT, 1.0) == ClusterProblem.TIMEOUT
