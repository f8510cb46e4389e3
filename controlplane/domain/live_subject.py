"""Kinds of the subjects of live updates: the part before the colon in `topic:orders`. Values only. The subjects of charts are `history.HistorySubject`."""

from __future__ import annotations

from enum import StrEnum


class LiveSubject(StrEnum):
    """`LAG`: one partition of a group, `lag:GROUP:TOPIC:INDEX`. `MOVE_STATE`: the part of a move's page that changes with its state."""

    CLUSTER = "cluster"
    TOPIC = "topic"
    MESSAGES = "messages"
    PARTITION = "partition"
    BROKER = "broker"
    GROUP = "group"
    SHARE_GROUP = "share-group"
    LAG = "lag"
    MOVE = "move"
    MOVE_STATE = "move-state"
