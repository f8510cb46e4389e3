"""Responses of ZooKeeper 3.8 to `srvr`."""

from __future__ import annotations

import pytest

from controlplane.clients.zookeeper_status import StatusUnreadable, parse_status
from controlplane.domain.zookeeper_server import ServerMode, ServerProblem

LEADER = """Zookeeper version: 3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2022-02-25 08:49 UTC
Latency min/avg/max: 0/1.2557/35
Received: 1250
Sent: 1249
Connections: 7
Outstanding: 2
Zxid: 0x100000042
Mode: leader
Node count: 151
Proposal sizes last/min/max: 48/48/1120
"""


def test_the_state_of_a_leader() -> None:
    s = parse_status(LEADER)
    assert (s.mode, s.version) == (ServerMode.LEADER, "3.8.0")
    assert (s.latency_min_ms, s.latency_mean_ms, s.latency_max_ms) == (0, 1.2557, 35)
    assert (s.received, s.sent, s.connections, s.outstanding, s.zxid, s.znodes) == (
        1250,
        1249,
        7,
        2,
        "0x100000042",
        151,
    )


def test_a_mode_that_is_not_known_is_other() -> None:
    assert parse_status(LEADER.replace("Mode: leader", "Mode: observer")).mode is ServerMode.OTHER


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        ("srvr is not executed because it is not in the whitelist.\n", ServerProblem.NOT_PERMITTED),
        ("This ZooKeeper instance is not currently serving requests\n", ServerProblem.NOT_SERVING),
        ("", ServerProblem.UNREADABLE),
        (LEADER.replace("Mode: leader\n", ""), ServerProblem.UNREADABLE),
        (LEADER.replace("151", "many"), ServerProblem.UNREADABLE),
        (LEADER.replace("0/1.2557/35", "0/1"), ServerProblem.UNREADABLE),
    ],
)
def test_a_response_without_a_state_has_a_problem(response: str, problem: ServerProblem) -> None:
    with pytest.raises(StatusUnreadable) as found:
        parse_status(response)
    assert found.value.problem is problem
