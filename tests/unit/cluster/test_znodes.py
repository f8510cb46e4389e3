"""Content of the znodes: a round trip, content of older versions, limits."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from brokerd.cluster import znodes
from brokerd.cluster.levels import LEVELS_BY_DEFAULT
from brokerd.cluster.model import Endpoint, ReplicaIncarnation, TopicPartition
from brokerd.cluster.znodes import (
    CORRUPT,
    PROPOSALS_MAX,
    BootstrapProposal,
    DamageReport,
    IsrProposal,
    LogEndReport,
    Proposals,
    Registration,
    ResetProposal,
    StartProposal,
)

TOPIC = UUID(int=7)
ISR = (ReplicaIncarnation(1, 101), ReplicaIncarnation(2, 102))
REGISTRATION = Registration(
    1,
    "uuid-1",
    "host",
    9092,
    "rack",
    "domain",
    True,
    "cluster",
    77,
    (3, 6),
    (Endpoint("TLS", "public", 9093, "SSL"),),
    "life-2",
    ("life-1",),
    "",
)


def test_a_registration_is_read_back_with_the_broker_epoch_of_its_znode() -> None:
    assert Registration.decode(REGISTRATION.encode(), 77) == REGISTRATION


def test_a_registration_of_an_older_broker_gets_defaults_and_a_newer_one_may_have_more_keys() -> None:
    body = json.loads(REGISTRATION.encode())
    for key in ("cluster_id", "metadata_levels", "endpoints", "life", "lives_before", "tail_doubt"):
        del body[key]
    older = Registration.decode(json.dumps({**body, "of a newer broker": 1}).encode(), 5)
    assert (older.cluster_id, older.metadata_levels, older.endpoints, older.life) == (None, LEVELS_BY_DEFAULT, (), "")


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b"[]"])
def test_an_invalid_registration_is_an_error(data: bytes) -> None:
    with pytest.raises((ValueError, KeyError, AttributeError)):
        Registration.decode(data, 1)


def test_proposals_of_every_kind_are_read_back() -> None:
    proposals = Proposals(
        (IsrProposal(TOPIC, 0, 3, 4, ISR),),
        (BootstrapProposal(TOPIC, 1, 3, 500),),
        (StartProposal(TOPIC, 2, 3, 600),),
        (ResetProposal(TOPIC, 3, 3, ISR[1]),),
        (LogEndReport(TOPIC, 4, 3, 2, 900), LogEndReport(TOPIC, 5, 3, -1, 0)),
    )
    assert znodes.decode_proposals(znodes.encode_proposals(9, proposals)) == (9, proposals)


def test_kinds_without_a_proposal_are_absent_for_older_controllers() -> None:
    assert set(json.loads(znodes.encode_proposals(9, Proposals()))) == {"incarnation", "proposals"}


def test_the_number_of_proposals_in_a_znode_is_limited() -> None:
    many = tuple(IsrProposal(TOPIC, i, 3, 4, ISR) for i in range(PROPOSALS_MAX + 5))
    data = znodes.encode_proposals(9, Proposals(many))
    assert znodes.decode_proposals(data)[1].isrs == many[:PROPOSALS_MAX]
    assert len(data) < 1_000_000, "ZooKeeper's limit"


def test_offline_replicas_and_damage_reports_are_read_back() -> None:
    replicas = frozenset(TopicPartition(UUID(int=t), p) for t in (1, 2) for p in range(5))
    assert znodes.decode_offline(znodes.encode_offline(9, replicas)) == (9, replicas)
    reports = (DamageReport(TopicPartition(TOPIC, 0), CORRUPT, "position 5"),)
    assert znodes.decode_damage_reports(znodes.encode_damage_reports(9, reports)) == (9, reports)


def test_entries_of_the_metadata_log_sort_by_their_number() -> None:
    assert sorted([znodes.entry(10), znodes.entry(9)]) == [znodes.entry(9), znodes.entry(10)]
