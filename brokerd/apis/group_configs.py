"""Settings of single groups of the new protocol (KIP-848): Kafka's resource type GROUP. Part of the doors to settings (`configs`).

Laws: a group's settings lie between what the brokers allow; they are wanted in a row, carried by the metadata log, and beat the brokers'
own. Whether the group exists does not matter, as in Kafka. Must not come in: what a setting does (`coordinator.settings`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import GROUP
from brokerd.coordinator.settings import GROUP_CONFIGS, group_problem
from brokerd.wire.errors import ErrorCode

RESOURCE_GROUP = 32
SOURCE_GROUP = 8
NAME_CHARACTERS_MAX = 1_000


class GroupConfigs:
    def __init__(self, values: Mapping[str, Any], image: Callable[[], Image]) -> None:
        self._values, self._image = values, image

    def set(self, group_id: str) -> dict[str, str]:
        """What is set of this group."""
        return dict(self._image().access_to(GROUP, group_id)[1] or {})

    def layers(self, group_id: str) -> list[tuple[str, list[tuple[str, str, int]], str]]:
        """(setting, its values with their sources, the one in force first, a sentence) for each there is."""
        own = self.set(group_id)
        out = []
        for name, c in GROUP_CONFIGS.items():
            layers = [(name, own[name], SOURCE_GROUP)] if name in own else []
            out.append((name, [*layers, (c.broker, str(self._values[c.broker]), 5)], c.doc))
        return out

    def change(
        self, group_id: str, operations: Sequence[Mapping[str, Any]]
    ) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """(what is to be written, nothing), or (None, a refusal)."""
        after = self.set(group_id)
        if not 0 < len(group_id) <= NAME_CHARACTERS_MAX:
            return None, {"error": ErrorCode.INVALID_REQUEST, "message": "a group's name is empty or too long"}
        for op in operations:
            if op["op"] == "delete":
                after.pop(op["name"], None)
            elif op["op"] == "set":
                after[op["name"]] = op["value"] or ""
            else:
                return None, {"error": ErrorCode.INVALID_CONFIG, "message": f"{op['name']} is not a list"}
        problem = group_problem(after, self._values)
        if problem is not None:
            return None, {"error": ErrorCode.INVALID_CONFIG, "message": problem}
        return {"name": group_id, "kind": GROUP, "value": after or None}, {}
