"""Live updates, reduced to what a user with role bindings may see. Does not contain: the visibility of the subjects of an update (`domain.visibility`)."""

from __future__ import annotations

from brokerd.cluster.partition_names import split_partition_name
from controlplane.domain.roles import RoleResource
from controlplane.domain.visibility import Visibility
from controlplane.monitoring import live_events
from controlplane.monitoring.live_events import LiveUpdate


def visible_update(update: LiveUpdate, visibility: Visibility) -> LiveUpdate:
    """`update` without the names of hidden topics in the data of visible objects."""
    if not visibility.limited or update["kind"] != live_events.GROUPS:
        return update
    data = update["data"]
    return {**update, "data": {**data, "groups": [_without_hidden_partition(g, visibility) for g in data["groups"]]}}


def _without_hidden_partition(group: dict[str, object], visibility: Visibility) -> dict[str, object]:
    """Return the row without the partition whose records retention deletes first, if the topic of this partition is hidden from the user."""
    partition = split_partition_name(str(group["retention_partition"]))
    is_visible = partition is None or visibility.sees(RoleResource.TOPIC, partition[0])
    return group if is_visible else {**group, "retention_partition": ""}
