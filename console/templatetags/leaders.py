"""Tag for the address that makes a replica the leader of its partition."""

from __future__ import annotations

from django import template
from django.urls import reverse
from django.utils.http import urlencode

from console.access_rules import may_open
from controlplane.selectors.partitions import PartitionRow

register = template.Library()


@register.simple_tag
def leader_address(partition: PartitionRow, broker_id: int) -> str:
    """The review that makes an in-sync follower the leader: an election if it is the preferred leader already, otherwise a move that puts it first. Empty
    while the partition is reassigned, because a second move of it would be rejected, and where the user may not open the review."""
    if partition.adding or partition.removing:
        return ""
    if partition.replicas[0] == broker_id:
        query = urlencode({"topic": partition.topic, "partition": str(partition.index)})
        return f"{reverse('leader-elections')}?{query}" if may_open("leader-elections") else ""
    order = [broker_id, *(b for b in partition.replicas if b != broker_id)]
    row = {"kind": "partitions", "step": "review", "topic": partition.topic, "p": str(partition.index)}
    return f"{reverse('move-new')}?{urlencode({**row, f'r{partition.index}': ','.join(map(str, order))})}"
