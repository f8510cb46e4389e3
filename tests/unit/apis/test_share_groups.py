"""ShareGroupHeartbeat and ShareGroupDescribe: what is rejected before the group sees it, and what the group answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis.share_groups import ShareGroupsApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.wire import messages as m
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.share_group.test_group import Scene
from tests.unit.coordinator.topics import A


class Api:
    def __init__(self, auth: Any = ALLOW_ALL) -> None:
        self.scene = Scene()
        image: Any = SimpleNamespace(topics={A: SimpleNamespace(name="a")})
        self.api = ShareGroupsApi(self.scene.groups, lambda: image, auth)

    def call_api(self, body: Any) -> Any:
        responses: list[Any] = []
        request: Any = SimpleNamespace(body=body, reply=responses.append, client_id="c", client_host="h")
        call = self.api.heartbeat if isinstance(body, m.ShareGroupHeartbeatRequest) else self.api.describe
        call(request)
        return responses[0]

    def beat(self, epoch: int, **more: Any) -> Any:
        fields = {"group_id": "g", "member_id": "m", "subscribed_topic_names": ["a"] if epoch == 0 else None, **more}
        return self.call_api(m.ShareGroupHeartbeatRequest(member_epoch=epoch, **fields))


def test_a_member_joins_is_described_and_leaves() -> None:
    api = Api()
    assert api.beat(0).member_epoch == 1
    found = api.beat(1)
    assert [(t.topic_id, t.partitions) for t in found.assignment.topic_partitions] == [(A, [0, 1, 2, 3])]
    (group,) = api.call_api(m.ShareGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)).groups
    (member,) = group.members
    assert (group.group_state, group.assignor_name, member.member_id, member.client_host) == (
        "Stable",
        "simple",
        "m",
        "/h",
    )
    assert [(t.topic_name, t.partitions) for t in member.assignment.topic_partitions] == [("a", [0, 1, 2, 3])]
    assert api.beat(-1).member_epoch == -1


@pytest.mark.parametrize(
    "more",
    [
        {"group_id": " "},
        {"member_id": ""},
        {"rack_id": ""},
        {"subscribed_topic_names": []},
        {"member_epoch": -2},
    ],
)
def test_invalid_requests_are_rejected(more: dict[str, Any]) -> None:
    epoch = more.pop("member_epoch", 0)
    response = Api().beat(epoch, **more)
    assert response.error_code == ErrorCode.INVALID_REQUEST and response.error_message


def test_errors_of_the_group_are_passed_on() -> None:
    api = Api()
    assert api.beat(5).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    (group,) = api.call_api(m.ShareGroupDescribeRequest(group_ids=["g"])).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_acls_of_group_and_topics_apply() -> None:
    def split(request: Any, operation: Any, resource: Any, items: Any, name: Any) -> tuple[list[Any], list[Any]]:
        return [], list(items)

    no_group: Any = SimpleNamespace(authorize=lambda *a: False, partition_by_authorized=split)
    assert Api(no_group).beat(0).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    no_topic: Any = SimpleNamespace(
        authorize=lambda *a: True, may_describe_all=lambda *a: False, partition_by_authorized=split
    )
    api = Api(no_topic)
    assert api.beat(0).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    (group,) = api.call_api(m.ShareGroupDescribeRequest(group_ids=["g"])).groups
    assert group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
