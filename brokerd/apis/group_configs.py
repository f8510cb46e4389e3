"""Settings of consumer groups (KIP-848), share groups (KIP-932) and streams groups (KIP-1071): Kafka's resource type GROUP.

Invariants: a group's settings are within the brokers' limits. They are a row in the database and a record of the metadata log, and override the
brokers' settings. As in Kafka, the group need not exist. Does not contain: the effect of a setting (`config/groups`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import GROUP
from brokerd.cluster.requests import AccessUpdate, AlterConfigOp, ItemResult, OpType
from brokerd.config.groups import GROUP_CONFIGS, group_problem
from brokerd.config.share_groups import SHARE_CONFIGS
from brokerd.config.streams_groups import STREAMS_CONFIGS
from brokerd.wire.errors import ErrorCode

RESOURCE_GROUP = 32
SOURCE_GROUP = 8
NAME_CHARACTERS_MAX = 1_000


class GroupConfigs:
    def __init__(self, values: Mapping[str, object], image: Callable[[], Image]) -> None:
        self._values, self._image = values, image

    def set(self, group_id: str) -> dict[str, str]:
        """The settings of this group."""
        return self._image().configs_of_group(group_id)

    def layers(self, group_id: str) -> list[tuple[str, list[tuple[str, str, int]], str]]:
        """For each setting: (name, its values with their sources, description). The effective value is first."""
        own = self.set(group_id)
        out = []
        for name, c in GROUP_CONFIGS.items():
            layers = [(name, own[name], SOURCE_GROUP)] if name in own else []
            out.append((name, [*layers, (c.broker, str(self._values[c.broker]), 5)], c.doc))
        for name, s in SHARE_CONFIGS.items():
            layers = [(name, own[name], SOURCE_GROUP)] if name in own else []
            default = (s.broker, str(self._values[s.broker])) if s.broker is not None else (name, s.default)
            out.append((name, [*layers, (*default, 5)], s.doc))
        for name, t in STREAMS_CONFIGS.items():
            layers = [(name, own[name], SOURCE_GROUP)] if name in own else []
            out.append((name, [*layers, (t.broker, str(self._values[t.broker]), 5)], t.doc))
        return out

    def change(self, group_id: str, operations: Sequence[AlterConfigOp]) -> AccessUpdate | ItemResult:
        """The change to write, or the error."""
        after = self.set(group_id)
        if not 0 < len(group_id) <= NAME_CHARACTERS_MAX:
            return ItemResult(
                group_id, ErrorCode.INVALID_REQUEST, f"the group id must have 1 to {NAME_CHARACTERS_MAX} characters"
            )
        for op in operations:
            if op.op is OpType.DELETE:
                after.pop(op.name, None)
            elif op.op is OpType.SET:
                after[op.name] = op.value or ""
            else:
                return ItemResult(group_id, ErrorCode.INVALID_CONFIG, f"{op.name} is not a list")
        problem = group_problem(after, self._values)
        if problem is not None:
            return ItemResult(group_id, ErrorCode.INVALID_CONFIG, problem)
        return AccessUpdate(group_id, GROUP, after or None)
