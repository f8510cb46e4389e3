"""The JSON of a partition state in the metadata log. Python names may change, stored names may not: older entries must stay readable."""

from __future__ import annotations

from uuid import UUID

import pytest

from brokerd.cluster.metadata import (
    BrokerDown,
    IsrRejected,
    MetadataError,
    MetadataRecord,
    partition_state_from_json,
    partition_state_to_json,
    record_from_json,
    record_to_json,
)
from brokerd.cluster.model import PartitionState, ReplicaIncarnation

STATE = PartitionState(
    (1, 2, 3),
    (ReplicaIncarnation(1, 101), ReplicaIncarnation(2, 102)),
    1,
    101,
    leader_epoch=5,
    partition_epoch=9,
    elr=(3,),
    last_isr=(2,),
    adding=(3,),
    removing=(2,),
    assignment_generation=4,
    observers=(4,),
    tail_start=70,
    log_start_floor=10,
    handover_offset=50,
    handover_epoch=3,
    history_replicas=(1, 2),
    voters=(1, 2, 3),
)
STORED = {
    "replicas": (1, 2, 3),
    "isr": [[1, 101], [2, 102]],
    "leader": 1,
    "leader_incarnation": 101,
    "leader_epoch": 5,
    "partition_epoch": 9,
    "elr": (3,),
    "last_isr": (2,),
    "adding": (3,),
    "removing": (2,),
    "assignment_generation": 4,
    "observers": (4,),
    "tail_start": 70,
    "log_start_floor": 10,
    "archive_start": 50,
    "archive_epoch": 3,
    "holders": (1, 2),
    "voters": (1, 2, 3),
}


def test_stored_names_are_unchanged() -> None:
    assert partition_state_to_json(STATE) == STORED
    assert partition_state_from_json(STORED) == STATE


def test_a_record_type_keeps_its_stored_name() -> None:
    stored = record_to_json(IsrRejected(3, 77, UUID(int=1), 0, 1, 2, "not alive"))
    assert stored["type"] == "IsrRefused"
    assert isinstance(record_from_json(stored), IsrRejected)


@pytest.mark.parametrize("name", ["handover_offset", "handover_epoch", "history_replicas", "unknown"])
def test_a_name_that_is_not_stored_is_rejected(name: str) -> None:
    with pytest.raises(MetadataError, match="cannot read partition state"):
        partition_state_from_json({**STORED, name: 1})


@pytest.mark.parametrize("record", [BrokerDown(3, 77), IsrRejected(3, 77, UUID(int=1), 0, 1, 2, "not alive")])
def test_the_broker_epoch_of_a_record_keeps_its_stored_name(record: MetadataRecord) -> None:
    stored = record_to_json(record)
    assert stored["incarnation"] == 77
    assert "broker_epoch" not in stored
    assert record_from_json(stored) == record
