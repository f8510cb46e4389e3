"""What the APIs of groups ask of their caller: more lines of `guards`' table, under its laws. Called by `authorizer`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from brokerd.access.acls import Resource
from brokerd.access.guards import (
    CLUSTER,
    GROUP,
    NO_GROUP,
    NO_TOPIC,
    NO_TRANSACTION,
    TOPIC,
    TRANSACTION,
    Asked,
    Guard,
    O,
)
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey


def group_read(response: type[Any]) -> Guard:
    def guard(a: Asked) -> bool:
        return False if a.may(O.READ, GROUP, a.body.group_id) else a.refuse(response(error_code=NO_GROUP))

    return guard


def find_coordinator(a: Asked) -> bool:
    r = m.FindCoordinatorResponse
    resource, error = (GROUP, NO_GROUP) if a.body.key_type == 0 else (TRANSACTION, NO_TRANSACTION)
    if a.version < 4:
        if a.may(O.DESCRIBE, resource, a.body.key):
            return False
        return a.refuse(r(error_code=error, node_id=-1, host="", port=-1))
    may_not = [k for k in a.body.coordinator_keys if not a.may(O.DESCRIBE, resource, k)]
    a.body.coordinator_keys = [k for k in a.body.coordinator_keys if k not in may_not]
    refused = [r.Coordinator(key=k, node_id=-1, host="", port=-1, error_code=error) for k in may_not]
    a.then(lambda answer: answer.coordinators.extend(refused))
    return False


def commits(
    a: Asked, response: type[Any], topic: type[Any], partition: type[Any], *wanted: tuple[O, Resource, str, int]
) -> bool:
    """Offsets to commit, in a transaction or not: all of `wanted` (operation, resource, its name, error), and each topic to be read."""

    def told(topics: Iterable[Any], error: int) -> list[Any]:
        return [
            topic(name=t.name, partitions=[partition(partition_index=p.partition_index, error_code=error) for p in t.partitions])
            for t in topics
        ]  # fmt: skip

    for operation, resource, name, error in wanted:
        if not a.may(operation, resource, name):
            return a.refuse(response(topics=told(a.body.topics, error)))
    may, may_not = a.only(O.READ, a.body.topics)
    if may_not and not may:
        return a.refuse(response(topics=told(may_not, NO_TOPIC)))
    a.body.topics = may
    a.then(lambda answer: answer.topics.extend(told(may_not, NO_TOPIC)))
    return False


def offset_commit(a: Asked) -> bool:
    r = m.OffsetCommitResponse
    wanted = (O.READ, GROUP, a.body.group_id, NO_GROUP)
    return commits(a, r, r.OffsetCommitResponseTopic, r.OffsetCommitResponsePartition, wanted)


def offset_fetch(a: Asked) -> bool:
    r = m.OffsetFetchResponse
    if a.version >= 8:
        may_not = [g for g in a.body.groups if not a.may(O.DESCRIBE, GROUP, g.group_id)]
        a.body.groups = [g for g in a.body.groups if g not in may_not]

        def amend(answer: Any) -> None:
            for g in answer.groups:
                for t in g.topics:
                    if not a.may(O.DESCRIBE, TOPIC, t.name):
                        _hide(t.partitions)
                if next((w.topics for w in a.body.groups if w.group_id == g.group_id), ()) is None:
                    g.topics = [t for t in g.topics if a.may(O.DESCRIBE, TOPIC, t.name)]
            answer.groups.extend(r.OffsetFetchResponseGroup(group_id=g.group_id, error_code=NO_GROUP) for g in may_not)

        a.then(amend)
        return False
    if not a.may(O.DESCRIBE, GROUP, a.body.group_id):
        part = r.OffsetFetchResponsePartition
        topics = [
            r.OffsetFetchResponseTopic(name=t.name, partitions=[
                part(partition_index=i, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=NO_GROUP)
                for i in t.partition_indexes])
            for t in a.body.topics or ()
        ]  # fmt: skip
        return a.refuse(r(error_code=NO_GROUP, topics=topics))

    def amend_one(answer: Any) -> None:
        if a.body.topics is None:
            answer.topics = [t for t in answer.topics if a.may(O.DESCRIBE, TOPIC, t.name)]
        for t in answer.topics:
            if not a.may(O.DESCRIBE, TOPIC, t.name):
                _hide(t.partitions)

    a.then(amend_one)
    return False


def _hide(partitions: Iterable[Any]) -> None:
    for p in partitions:
        p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code = -1, -1, "", NO_TOPIC


def describe_groups(a: Asked) -> bool:
    may_not = [g for g in a.body.groups if not a.may(O.DESCRIBE, GROUP, g)]
    a.body.groups = [g for g in a.body.groups if g not in may_not]

    def amend(answer: Any) -> None:
        if a.version >= 3 and a.body.include_authorized_operations:
            for g in answer.groups:
                g.authorized_operations = a.operations(GROUP, g.group_id)
        group = m.DescribeGroupsResponse.DescribedGroup
        answer.groups.extend(group(group_id=g, error_code=NO_GROUP, group_state="") for g in may_not)

    a.then(amend)
    return False


def list_groups(a: Asked) -> bool:
    def amend(answer: Any) -> None:
        if not a.may(O.DESCRIBE, CLUSTER):
            answer.groups = [g for g in answer.groups if a.may(O.DESCRIBE, GROUP, g.group_id)]

    a.then(amend)
    return False


def delete_groups(a: Asked) -> bool:
    may_not = [g for g in a.body.groups_names if not a.may(O.DELETE, GROUP, g)]
    a.body.groups_names = [g for g in a.body.groups_names if g not in may_not]
    result = m.DeleteGroupsResponse.DeletableGroupResult
    a.then(lambda answer: answer.results.extend(result(group_id=g, error_code=NO_GROUP) for g in may_not))
    return False


def offset_delete(a: Asked) -> bool:
    r = m.OffsetDeleteResponse
    if not a.may(O.DELETE, GROUP, a.body.group_id):
        return a.refuse(r(error_code=NO_GROUP))
    a.body.topics, may_not = a.only(O.READ, a.body.topics)
    part = r.OffsetDeleteResponsePartition
    refused = [
        r.OffsetDeleteResponseTopic(name=t.name, partitions=[part(partition_index=p.partition_index, error_code=NO_TOPIC) for p in t.partitions])
        for t in may_not
    ]  # fmt: skip
    a.then(lambda answer: answer.topics.extend(refused))
    return False


# -- the new protocol (KIP-848) --------------------------------------------------------------------------------------------
def join_group(a: Asked) -> bool:
    """Its group may have members of the new protocol, whose patterns are matched when somebody joins."""
    a.request.sees = lambda name: a.may(O.DESCRIBE, TOPIC, name)
    return group_read(m.JoinGroupResponse)(a)


def consumer_heartbeat(a: Asked) -> bool:
    r = m.ConsumerGroupHeartbeatResponse
    if not a.may(O.READ, GROUP, a.body.group_id):
        return a.refuse(r(error_code=NO_GROUP))
    if not all(a.may(O.DESCRIBE, TOPIC, name) for name in a.body.subscribed_topic_names or ()):
        return a.refuse(r(error_code=NO_TOPIC))
    a.request.sees = lambda name: a.may(O.DESCRIBE, TOPIC, name)
    return False


def consumer_describe(a: Asked) -> bool:
    group = m.ConsumerGroupDescribeResponse.DescribedGroup
    may_not = [g for g in a.body.group_ids if not a.may(O.DESCRIBE, GROUP, g)]
    a.body.group_ids = [g for g in a.body.group_ids if g not in may_not]

    def amend(answer: Any) -> None:
        for i, g in enumerate(answer.groups):
            shown = {
                t.topic_name for x in g.members for y in (x.assignment, x.target_assignment) for t in y.topic_partitions
            }
            if not all(a.may(O.DESCRIBE, TOPIC, name) for name in shown):
                answer.groups[i] = group(group_id=g.group_id, error_code=NO_TOPIC)
            elif a.body.include_authorized_operations and not g.error_code:
                g.authorized_operations = a.operations(GROUP, g.group_id)
        answer.groups.extend(group(group_id=g, error_code=NO_GROUP) for g in may_not)

    a.then(amend)
    return False


GUARDS: dict[int, Guard] = {
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.JOIN_GROUP: join_group,
    ApiKey.HEARTBEAT: group_read(m.HeartbeatResponse),
    ApiKey.LEAVE_GROUP: group_read(m.LeaveGroupResponse),
    ApiKey.SYNC_GROUP: group_read(m.SyncGroupResponse),
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.OFFSET_DELETE: offset_delete,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_describe,
}
