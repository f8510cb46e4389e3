"""The response of a ZooKeeper server to the four-letter command `srvr`. Pure.

Source: ZooKeeper administrator's guide, section "The Four Letter Words".
"""

from __future__ import annotations

import re

from controlplane.domain.zookeeper_server import ServerMode, ServerProblem, ServerStatus

NOT_PERMITTED = "is not executed because it is not in the whitelist"
NOT_SERVING = "not currently serving requests"


class StatusUnreadable(Exception):
    """The response has no status. `problem` is the reason."""

    def __init__(self, problem: ServerProblem) -> None:
        super().__init__(problem)
        self.problem = problem


def parse_status(response: str) -> ServerStatus:
    """Parse the response of a ZooKeeper server to a status command. Raises StatusUnreadable with the problem of the server."""
    if NOT_PERMITTED in response:
        raise StatusUnreadable(ServerProblem.NOT_PERMITTED)
    if NOT_SERVING in response:
        raise StatusUnreadable(ServerProblem.NOT_SERVING)
    fields = dict(re.findall(r"^([A-Za-z /]+): *(.*?)\s*$", response, re.MULTILINE))
    try:
        low, mean, high = (float(part) for part in fields["Latency min/avg/max"].split("/"))
        mode = fields["Mode"]
        return ServerStatus(
            ServerMode(mode) if mode in set(ServerMode) else ServerMode.OTHER,
            fields["Zookeeper version"].partition("-")[0].partition(",")[0],
            low,
            mean,
            high,
            int(fields["Received"]),
            int(fields["Sent"]),
            int(fields["Connections"]),
            int(fields["Outstanding"]),
            fields["Zxid"],
            int(fields["Node count"]),
        )
    except (KeyError, ValueError) as e:
        raise StatusUnreadable(ServerProblem.UNREADABLE) from e
