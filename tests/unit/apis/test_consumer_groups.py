"""Authorization of heartbeats and descriptions of consumer groups: the group, and each topic that a member subscribes to or owns."""

from __future__ import annotations

from brokerd.authz.acls import Operation
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from tests.unit.apis.test_groups import GROUP, TOPIC, Groups, Recorder
from tests.unit.authz.scene import Broker


def join_consumer_group(broker: Broker, *names: str) -> int:
    body = m.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1_000, subscribed_topic_names=[*names], topic_partitions=[]
    )
    return int(broker.send_request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, body).error_code)


def test_a_consumer_joins_with_read_on_the_group_and_describe_on_each_topic() -> None:
    groups = Recorder()
    broker = Broker(groups=groups)
    broker.allow("describe topic t")
    assert join_consumer_group(broker, "t") == GROUP
    broker.allow("read group g")
    assert join_consumer_group(broker, "t", "u") == TOPIC and not groups.events
    assert join_consumer_group(broker, "t") == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    may_describe = groups.events[0].may_describe
    assert [n for n in ("t", "u") if may_describe(n)] == ["t"], "topics that match a pattern are authorized too"


def test_without_an_authorizer_members_may_describe_every_topic() -> None:
    groups = Recorder()
    join_consumer_group(Broker(groups=groups, **{"authorizer.class.name": ""}), "t")
    assert groups.events[0].may_describe is None


def test_describing_a_consumer_group_needs_permission_for_each_of_its_topics() -> None:
    broker = Groups("describe group g", "describe topic a")
    broker.coordinator.beat("m1", 0, "a", "b")
    body = m.ConsumerGroupDescribeRequest(group_ids=["k", "g"], include_authorized_operations=True)
    g, k = broker.send_request(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, body).groups
    assert [(x.group_id, x.error_code, x.members) for x in (g, k)] == [("g", TOPIC, []), ("k", GROUP, [])]
    broker.allow("describe topic b")
    g, k = broker.send_request(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, body).groups
    assert (g.error_code, len(g.members), g.authorized_operations) == (0, 1, 1 << Operation.DESCRIBE)
    assert (k.group_id, k.error_code) == ("k", GROUP)
