"""Kinds and shapes of live updates for browsers. The cluster monitor sends them through the channel layer group "live".

A message on the layer is {"type": "live.updates", "updates": [PackedUpdate, ...]} (`live_packing`); `seq` is one above the last update's in one
`run`. A page contains `live_selectors.latest()`. A socket that sees a gap calls `live_selectors.since(run, seq)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

LIVE_GROUP = "live"
LIVE_TYPE = "live.updates"

CLUSTER = "cluster"
"""`selectors.overview.OverviewShape`: the overview's values."""
BROKERS = "brokers"
"""`live_shapes.BrokersUpdate`: all brokers."""
PARTITIONS = "partitions"
"""`live_shapes.PartitionsUpdate`: partitions of one topic that changed."""
TOPICS = "topics"
"""`live_shapes.TopicsUpdate`: topics that changed."""
GROUPS = "groups"
"""`live_shapes.GroupsUpdate`: consumer groups that changed."""
LAG = "lag"
"""`live_shapes.LagUpdate`: all partitions of one consumer group."""
SHARE_GROUPS = "share_groups"
"""`live_shapes.ShareGroupsUpdate`: share groups that changed, and the number of all."""
MESSAGES = "messages"
"""`live_shapes.MessagesUpdate`: topics whose values of half messages, delayed messages or dead letters changed."""
MOVES = "moves"
"""`live_shapes.MovesUpdate`: moves that changed."""
CHANGES = "changes"
"""`live_shapes.ChangesUpdate`: the newest change, and the number of pending changes."""
ARCHIVES = "archives"
"""`live_shapes.ArchivesUpdate`: archive jobs that changed."""
OTHER_CLUSTERS = "other_clusters"
"""`live_shapes.OtherClustersUpdate`: sent after each round of requests to the consoles of the other clusters."""


class LiveUpdate(TypedDict):
    run: str
    seq: int
    kind: str
    data: Mapping[str, Any]
