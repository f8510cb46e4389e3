"""The written cases of docs/acl-cases.md, and the guards: who may not, is told so in the shape of each API."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from brokerd.access.acls import Acl, Acls, Filter, Operation, Pattern, Permission, Resource
from brokerd.access.authorizer import RULES, Authorizer
from brokerd.access.guards import FREE
from brokerd.apis.security import _acl_problem
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import AccessChanged
from brokerd.cluster.model import TopicState
from brokerd.dispatch import Request, Session
from brokerd.wire import framing
from brokerd.wire import messages as m
from brokerd.wire.apis import APIS, Api, ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.services.access import acl_key
from tests.protocol.generate import Generator

TABLE = Path(__file__).resolve().parents[3] / "docs" / "acl-cases.md"
CASES = [
    tuple(cell.strip() for cell in line.strip("|\n").split("|"))
    for line in TABLE.read_text().splitlines()
    if line.startswith("|") and not line.startswith(("| ACLs", "|---"))
]


def parse(text: str) -> Acl:
    permission, principal, host, operation, resource, name = text.split()
    prefixed = name.endswith("*") and name != "*"
    return Acl(
        Resource[resource.upper()], Pattern.PREFIXED if prefixed else Pattern.LITERAL, name[:-1] if prefixed else name,
        principal, host, Operation[operation.upper()], Permission[permission.upper()],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("acls", "asked", "answer", "because"), CASES, ids=[f"{a or 'nothing'} / {q}" for a, q, _, _ in CASES]
)
def test_a_written_case(acls: str, asked: str, answer: str, because: str) -> None:
    found = re.fullmatch(r"(\w+) (?:any (\w+)|(\w+) (\S+))(?: as (\S+))?( if no ACL is found)?", asked)
    assert found is not None
    all_of_them = Acls([parse(a) for a in acls.split(";") if a.strip()], ["User:root"], bool(found[6]))
    who, operation = found[5] or "User:alice", Operation[found[1].upper()]
    if found[2]:
        told = all_of_them.allowed_anywhere(who, "10.0.0.1", operation, Resource[found[2].upper()])
    else:
        told = all_of_them.allowed(who, "10.0.0.1", operation, Resource[found[3].upper()], found[4])
    assert told == (answer == "yes"), because


def test_an_acl_has_the_same_key_at_both_ends_and_reads_back() -> None:
    acl = parse("deny User:a|b 10.0.0.1 read topic t-*")
    assert acl_key(acl.to_json()) == acl.key
    assert Acl.from_json(acl.to_json()) == acl


@pytest.mark.parametrize(
    ("pattern", "name", "acl", "fits"),
    [
        (Pattern.ANY, "t", "allow User:a * read topic t", True),
        (Pattern.ANY, "tx", "allow User:a * read topic t*", False),
        (Pattern.MATCH, "tx", "allow User:a * read topic t*", True),
        (Pattern.MATCH, "tx", "allow User:a * read topic *", True),
        (Pattern.LITERAL, "tx", "allow User:a * read topic *", False),
        (Pattern.PREFIXED, "t", "allow User:a * read topic t*", True),
        (Pattern.PREFIXED, "t", "allow User:a * read topic t", False),
        (Pattern.ANY, None, "allow User:a * read topic t*", True),
    ],
)  # fmt: skip
def test_a_filter_finds_what_kafkas_finds(pattern: Pattern, name: str | None, acl: str, fits: bool) -> None:
    assert Filter(Resource.TOPIC, pattern, name, None, None, Operation.ANY, Permission.ANY).fits(parse(acl)) == fits


# -- guards --------------------------------------------------------------------------------------------------------------
class Caller:
    """A connection that keeps the answer."""

    def __init__(self) -> None:
        self.peer, self.closed, self.parts = "10.0.0.1:5", False, None

    def answer(self, slot: Any, parts: Any) -> None:
        self.parts = parts

    def close(self) -> None:
        self.closed = True


def image() -> Image:
    it = Image(metadata_version=3)
    it.topics[UUID(int=1)] = TopicState(UUID(int=1), "t", 1, {}, 1, True)
    it.topic_ids["t"] = UUID(int=1)
    return it


def authorizer(it: Image, **more: Any) -> Authorizer:
    settings = {"authorizer.class.name": "x", "super.users": ("User:root",), "allow.everyone.if.no.acl.found": False}
    return Authorizer({**settings, **more}, lambda: it)


def request(key: int, version: int, body: Any, principal: str = "User:alice") -> tuple[Request, Caller]:
    caller = Caller()
    header = framing.RequestHeader(key, version, 7, "c")
    return Request(caller, None, header, body, Session("PLAINTEXT", principal)), caller  # type: ignore[arg-type]


def test_every_api_has_a_rule_or_is_free() -> None:
    assert set(APIS) == set(RULES) | FREE
    assert set(RULES) & FREE == {ApiKey.DESCRIBE_CLUSTER}


CALLS = [(a, v) for a in APIS.values() if a.key not in FREE for v in range(a.min_version, a.max_version + 1)]


WHOLE = {
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT,
}
"""Refused as a whole to who may nothing."""


@pytest.mark.parametrize(("api", "version"), CALLS, ids=[f"{a.name}-v{v}" for a, v in CALLS])
def test_what_any_api_is_asked_by_who_may_nothing_is_taken_out_and_answered(api: Api, version: int) -> None:
    """Nothing of a request is left for the handler, and the answer can be written in every version."""
    for seed in range(25):
        body = Generator(seed).message(api.request, version)
        if api.key == ApiKey.PRODUCE:
            body.acks = -1
        asked, caller = request(api.key, version, body)
        if not authorizer(image()).settled(asked):
            assert api.key not in WHOLE, "nothing of it may pass"
            for name in (
                "topics",
                "topic_data",
                "topic_names",
                "resources",
                "groups",
                "groups_names",
                "coordinator_keys",
                "transactional_ids",
                "transactions",
                "v3_and_below_topics",
                "markers",
            ):
                left = getattr(body, name, None)
                if api.key == ApiKey.METADATA and left:
                    left = [x for x in left if x.name is not None]  # an unknown id is the handler's to tell
                if api.key == ApiKey.DELETE_TOPICS and left:
                    left = [x for x in left if isinstance(x, str) or x.name is not None]
                if api.key in (ApiKey.PRODUCE, ApiKey.FETCH) and version >= 13:
                    left = None
                assert not left, f"{name} is left: {left}"
            asked.reply(api.response())
        assert caller.parts is not None
        assert not caller.closed, "the answer could not be written"


def test_a_super_user_is_hindered_nowhere() -> None:
    for api, version in CALLS:
        body = Generator(1).message(api.request, version)
        before = repr(body)
        asked, _ = request(api.key, version, body, "User:root")
        assert not authorizer(image()).settled(asked)
        assert repr(asked.body) == before


def test_what_is_allowed_stays_and_the_rest_is_refused_beside_it() -> None:
    it = image()
    it.apply(AccessChanged("acl", "k", 1, parse("allow User:alice * write topic t").to_json()))
    topic, part = m.ProduceRequest.TopicProduceData, m.ProduceRequest.PartitionProduceData
    body = m.ProduceRequest(acks=1, topic_data=[topic(name=n, partition_data=[part(index=0)]) for n in ("t", "u")])
    asked, caller = request(ApiKey.PRODUCE, 9, body)
    judge = authorizer(it)
    assert not judge.settled(asked)
    assert [t.name for t in asked.body.topic_data] == ["t"]
    r = m.ProduceResponse
    asked.reply(
        r(responses=[r.TopicProduceResponse(name="t", partition_responses=[r.PartitionProduceResponse(index=0)])])
    )
    assert caller.parts is not None
    _, told = framing.decode_response(ApiKey.PRODUCE, 9, memoryview(caller.parts[0])[4:])
    assert {t.name: t.partition_responses[0].error_code for t in told.responses} == {"t": 0, "u": 29}


def test_who_names_topics_by_id_is_judged_by_their_names() -> None:
    it = image()
    known = it.topic_named("t")
    assert known is not None
    topic, part = m.ProduceRequest.TopicProduceData, m.ProduceRequest.PartitionProduceData
    ids = (known.topic_id, UUID(int=99))

    def judged() -> tuple[list[UUID], dict[UUID, int]]:
        """What is left to the handler, and what was refused."""
        body = m.ProduceRequest(acks=1, topic_data=[topic(topic_id=i, partition_data=[part(index=0)]) for i in ids])
        asked, caller = request(ApiKey.PRODUCE, 13, body)
        assert not authorizer(it).settled(asked)
        asked.reply(m.ProduceResponse(responses=[]))
        assert caller.parts is not None
        _, told = framing.decode_response(ApiKey.PRODUCE, 13, memoryview(caller.parts[0])[4:])
        left = [t.topic_id for t in asked.body.topic_data]
        return left, {t.topic_id: t.partition_responses[0].error_code for t in told.responses}

    assert judged() == ([ids[1]], {ids[0]: 29}), "an unknown id is the handler's to tell"
    it.apply(AccessChanged("acl", "k", 1, parse("allow User:alice * write topic t").to_json()))
    assert judged() == (list(ids), {})


def test_a_fetch_that_waits_is_judged_again_when_it_is_answered() -> None:
    it = image()
    it.apply(AccessChanged("acl", "k", 1, parse("allow User:alice * read topic t").to_json()))
    judge = authorizer(it)
    topic, part = m.FetchRequest.FetchTopic, m.FetchRequest.FetchPartition
    body = m.FetchRequest(replica_id=-1, topics=[topic(topic="t", partitions=[part(partition=0)])])
    asked, caller = request(ApiKey.FETCH, 11, body)
    assert not judge.settled(asked)
    it.apply(AccessChanged("acl", "k", 2, None))
    judge.changed()
    r = m.FetchResponse
    data = r.PartitionData(partition_index=0, high_watermark=5, records=b"secret")
    asked.reply(r(responses=[r.FetchableTopicResponse(topic="t", partitions=[data])]))
    assert caller.parts is not None
    _, told = framing.decode_response(ApiKey.FETCH, 11, memoryview(b"".join(map(bytes, caller.parts)))[4:])
    (shown,) = told.responses[0].partitions
    assert (shown.error_code, bytes(shown.records), shown.high_watermark) == (29, b"", -1)


def test_authorised_operations_are_told_with_and_without_an_authoriser() -> None:
    r = m.MetadataResponse
    body = {"topics": None, "include_topic_authorized_operations": True}
    it = image()
    it.apply(AccessChanged("acl", "k", 1, parse("allow User:alice * read topic t").to_json()))
    for judge, bits in (
        (authorizer(it), 1 << Operation.READ | 1 << Operation.DESCRIBE),
        (authorizer(it, **{"authorizer.class.name": ""}), sum(1 << o for o in (3, 4, 5, 6, 7, 8, 10, 11))),
    ):
        asked, caller = request(ApiKey.METADATA, 9, m.MetadataRequest(**body))  # type: ignore[arg-type]
        assert not judge.settled(asked)
        asked.reply(r(topics=[r.MetadataResponseTopic(name="t"), r.MetadataResponseTopic(name="u")]))
        assert caller.parts is not None
        _, told = framing.decode_response(ApiKey.METADATA, 9, memoryview(caller.parts[0])[4:])
        assert told.topics[0].topic_authorized_operations == bits
        assert len(told.topics) == (1 if judge.enabled else 2)


def test_who_may_describe_nothing_of_what_it_names_is_not_shown_everything_instead() -> None:
    r = m.DescribeTopicPartitionsResponse
    asked, caller = request(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        m.DescribeTopicPartitionsRequest([m.DescribeTopicPartitionsRequest.TopicRequest("u")]),
    )
    assert authorizer(image()).settled(asked)
    assert caller.parts is not None
    _, told = framing.decode_response(75, 0, memoryview(caller.parts[0])[4:])
    assert told.topics == [r.DescribeTopicPartitionsResponseTopic(29, "u")]


def test_who_names_no_topic_is_told_of_those_it_may_describe() -> None:
    r = m.DescribeTopicPartitionsResponse
    it = image()
    it.apply(AccessChanged("acl", "k", 1, parse("allow User:alice * describe topic t").to_json()))
    asked, caller = request(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, m.DescribeTopicPartitionsRequest())
    assert not authorizer(it).settled(asked)
    asked.reply(r(topics=[r.DescribeTopicPartitionsResponseTopic(0, n) for n in ("t", "u")]))
    assert caller.parts is not None
    _, told = framing.decode_response(75, 0, memoryview(caller.parts[0])[4:])
    assert [(t.name, t.topic_authorized_operations) for t in told.topics] == [("t", 1 << Operation.DESCRIBE)]


def test_without_an_authoriser_nothing_is_judged() -> None:
    judge = authorizer(image(), **{"authorizer.class.name": ""})
    asked = SimpleNamespace(header=SimpleNamespace(api_key=0), body=None)
    assert not judge.settled(asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (ApiKey.DESCRIBE_ACLS, 31), (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 31), (ApiKey.DESCRIBE_LOG_DIRS, 31),
        (ApiKey.DESCRIBE_CLIENT_QUOTAS, 31), (ApiKey.INIT_PRODUCER_ID, 31), (ApiKey.JOIN_GROUP, 30), (ApiKey.SYNC_GROUP, 30),
        (ApiKey.HEARTBEAT, 30), (ApiKey.LEAVE_GROUP, 30), (ApiKey.OFFSET_DELETE, 30),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 31), (ApiKey.ADD_OFFSETS_TO_TXN, 53), (ApiKey.END_TXN, 53),
    ],
)  # fmt: skip
def test_a_refusal_carries_kafkas_code(key: ApiKey, error: int) -> None:
    api = APIS[key]
    body = api.request()
    if key == ApiKey.INIT_PRODUCER_ID:
        body.transactional_id = None  # type: ignore[attr-defined]
    asked, caller = request(key, api.max_version, body)
    assert authorizer(image()).settled(asked)
    assert caller.parts is not None
    _, told = framing.decode_response(key, api.max_version, memoryview(b"".join(map(bytes, caller.parts)))[4:])
    assert told.error_code == error


def test_a_transaction_is_added_to_as_a_whole_or_not_at_all() -> None:
    it = image()
    it.apply(AccessChanged("acl", "k", 1, parse("allow User:alice * write transactional_id x").to_json()))
    it.apply(AccessChanged("acl", "l", 1, parse("allow User:alice * write topic t").to_json()))
    topic = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    body = m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x", v3_and_below_topics=[topic(name=n, partitions=[0]) for n in ("t", "u")]
    )
    asked, caller = request(ApiKey.ADD_PARTITIONS_TO_TXN, 3, body)
    assert authorizer(it).settled(asked)
    assert caller.parts is not None
    _, told = framing.decode_response(ApiKey.ADD_PARTITIONS_TO_TXN, 3, memoryview(caller.parts[0])[4:])
    codes = {t.name: t.results_by_partition[0].partition_error_code for t in told.results_by_topic_v3_and_below}
    assert codes == {"t": 55, "u": 29}
    body.v3_and_below_topics = body.v3_and_below_topics[:1]
    asked, _ = request(ApiKey.ADD_PARTITIONS_TO_TXN, 3, body)
    assert not authorizer(it).settled(asked)


def test_a_consumer_joins_where_it_may_read_the_group_and_see_the_topics() -> None:
    def asked_by(*rules: str, names: list[str]) -> tuple[Request, Caller, bool]:
        it = image()
        for i, rule in enumerate(rules):
            it.apply(AccessChanged("acl", str(i), 1, parse(f"allow User:alice * {rule}").to_json()))
        body = m.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=names)
        asked, caller = request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, body)
        return asked, caller, authorizer(it).settled(asked)

    def told(caller: Caller) -> int:
        assert caller.parts is not None
        frame = memoryview(b"".join(bytes(p) for p in caller.parts))[4:]
        return int(framing.decode_response(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, frame)[1].error_code)

    _, caller, settled = asked_by("describe topic t", names=["t"])
    assert settled and told(caller) == ErrorCode.GROUP_AUTHORIZATION_FAILED
    _, caller, settled = asked_by("read group g", "describe topic t", names=["t", "u"])
    assert settled and told(caller) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    asked, _, settled = asked_by("read group g", "describe topic t", names=["t"])
    assert not settled and asked.sees is not None
    assert [n for n in ("t", "u") if asked.sees(n)] == ["t"], "what a pattern matches is looked at, too"


def test_a_consumer_group_is_shown_to_who_may_see_all_that_it_reads() -> None:
    it = image()
    for i, rule in enumerate(("describe group g", "describe group h", "describe topic t")):
        it.apply(AccessChanged("acl", str(i), 1, parse(f"allow User:alice * {rule}").to_json()))
    body = m.ConsumerGroupDescribeRequest(group_ids=["g", "h", "k"], include_authorized_operations=True)
    asked, caller = request(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, body)
    assert not authorizer(it).settled(asked) and body.group_ids == ["g", "h"]
    r = m.ConsumerGroupDescribeResponse

    def group(name: str, topic: str) -> Any:
        assignment = r.Assignment([r.TopicPartitions(topic_id=UUID(int=1), topic_name=topic, partitions=[0])])
        return r.DescribedGroup(
            group_id=name, members=[r.Member(member_id="m", assignment=assignment, target_assignment=assignment)]
        )

    asked.reply(r(groups=[group("g", "t"), group("h", "u")]))
    assert caller.parts is not None
    frame = memoryview(b"".join(bytes(p) for p in caller.parts))[4:]
    shown = {g.group_id: g for g in framing.decode_response(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, frame)[1].groups}
    assert {g: x.error_code for g, x in shown.items()} == {
        "g": 0, "h": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "k": ErrorCode.GROUP_AUTHORIZATION_FAILED,
    }  # fmt: skip
    assert shown["g"].members and not shown["h"].members
    assert shown["g"].authorized_operations > 0


def test_a_groups_settings_are_asked_of_the_group() -> None:
    it = image()
    it.apply(AccessChanged("acl", "k", 1, parse("allow User:alice * describe_configs group g").to_json()))
    resource = m.DescribeConfigsRequest.DescribeConfigsResource
    body = m.DescribeConfigsRequest([resource(32, "g", None), resource(32, "h", None), resource(2, "t", None)])
    asked, caller = request(ApiKey.DESCRIBE_CONFIGS, 1, body)
    assert not authorizer(it).settled(asked) and [r.resource_name for r in body.resources] == ["g"]
    asked.reply(m.DescribeConfigsResponse())
    assert caller.parts is not None
    frame = memoryview(b"".join(bytes(p) for p in caller.parts))[4:]
    told = {
        r.resource_name: r.error_code for r in framing.decode_response(ApiKey.DESCRIBE_CONFIGS, 1, frame)[1].results
    }
    assert told == {"h": ErrorCode.GROUP_AUTHORIZATION_FAILED, "t": ErrorCode.TOPIC_AUTHORIZATION_FAILED}


@pytest.mark.parametrize(
    ("owner", "rules", "error"),
    [(None, [], None), (("User", "alice"), [], None), (("User", "bob"), [], 65), (("User", "bob"), ["create_tokens user User:bob"], None)],
)  # fmt: skip
def test_tokens_in_anothers_name_are_asked_of_that_user(owner: tuple[str, str] | None, rules: list[str], error: int | None) -> None:  # fmt: skip
    it = image()
    for i, rule in enumerate(rules):
        it.apply(AccessChanged("acl", str(i), 1, parse(f"allow User:alice * {rule}").to_json()))
    kind, name = owner or (None, None)
    body = m.CreateDelegationTokenRequest(owner_principal_type=kind, owner_principal_name=name)
    asked, caller = request(ApiKey.CREATE_DELEGATION_TOKEN, 3, body)
    assert authorizer(it).settled(asked) is (error is not None)
    if error is not None:
        assert caller.parts is not None
        told = framing.decode_response(ApiKey.CREATE_DELEGATION_TOKEN, 3, memoryview(caller.parts[0])[4:])[1]
        assert told.error_code == error


@pytest.mark.parametrize(("resource", "operation", "fine"), [(7, 13, True), (7, 14, True), (7, 3, False), (6, 8, True), (6, 13, False)])  # fmt: skip
def test_acls_on_users_and_tokens_are_taken_with_their_own_operations(resource: int, operation: int, fine: bool) -> None:  # fmt: skip
    acl = m.CreateAclsRequest.AclCreation(
        resource_type=resource, resource_name="User:bob", resource_pattern_type=3, principal="User:alice", host="*",
        operation=operation, permission_type=3,
    )  # fmt: skip
    assert (_acl_problem(acl) is None) is fine


def test_a_join_of_the_classic_protocol_shows_the_patterns_of_others_no_more_than_its_caller_may_see() -> None:
    it = image()
    for i, rule in enumerate(("read group g", "describe topic t")):
        it.apply(AccessChanged("acl", str(i), 1, parse(f"allow User:alice * {rule}").to_json()))
    asked, _ = request(ApiKey.JOIN_GROUP, 9, m.JoinGroupRequest(group_id="g"))
    assert not authorizer(it).settled(asked) and asked.sees is not None
    assert [n for n in ("t", "u") if asked.sees(n)] == ["t"]
