"""State of share partitions, between brokers: requests to the share coordinator (KIP-932). Descriptions only; names, types and versions are from Kafka's message definitions (up to 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from brokerd.wire.schema import Struct, array, f


@dataclass(slots=True)
class InitializeShareGroupStateRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class PartitionData(Struct):
        partition: int = f("int32")
        state_epoch: int = f("int32")
        start_offset: int = f("int64")

    @dataclass(slots=True)
    class InitializeStateData(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[InitializeShareGroupStateRequest.PartitionData] = f(array("PartitionData"))

    group_id: str = f("string")
    topics: list[InitializeShareGroupStateRequest.InitializeStateData] = f(array("InitializeStateData"))


@dataclass(slots=True)
class InitializeShareGroupStateResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class PartitionResult(Struct):
        partition: int = f("int32")
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)

    @dataclass(slots=True)
    class InitializeStateResult(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[InitializeShareGroupStateResponse.PartitionResult] = f(array("PartitionResult"))

    results: list[InitializeShareGroupStateResponse.InitializeStateResult] = f(array("InitializeStateResult"))


@dataclass(slots=True)
class ReadShareGroupStateRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class PartitionData(Struct):
        partition: int = f("int32")
        leader_epoch: int = f("int32")

    @dataclass(slots=True)
    class ReadStateData(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[ReadShareGroupStateRequest.PartitionData] = f(array("PartitionData"))

    group_id: str = f("string")
    topics: list[ReadShareGroupStateRequest.ReadStateData] = f(array("ReadStateData"))


@dataclass(slots=True)
class ReadShareGroupStateResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class StateBatch(Struct):
        first_offset: int = f("int64")
        last_offset: int = f("int64")
        delivery_state: int = f("int8")
        delivery_count: int = f("int16")

    @dataclass(slots=True)
    class PartitionResult(Struct):
        partition: int = f("int32")
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)
        state_epoch: int = f("int32")
        start_offset: int = f("int64")
        state_batches: list[ReadShareGroupStateResponse.StateBatch] = f(array("StateBatch"))

    @dataclass(slots=True)
    class ReadStateResult(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[ReadShareGroupStateResponse.PartitionResult] = f(array("PartitionResult"))

    results: list[ReadShareGroupStateResponse.ReadStateResult] = f(array("ReadStateResult"))


@dataclass(slots=True)
class WriteShareGroupStateRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class StateBatch(Struct):
        first_offset: int = f("int64")
        last_offset: int = f("int64")
        delivery_state: int = f("int8")
        delivery_count: int = f("int16")

    @dataclass(slots=True)
    class PartitionData(Struct):
        partition: int = f("int32")
        state_epoch: int = f("int32")
        leader_epoch: int = f("int32")
        start_offset: int = f("int64")
        delivery_complete_count: int = f("int32", "1+", default=-1)
        state_batches: list[WriteShareGroupStateRequest.StateBatch] = f(array("StateBatch"))

    @dataclass(slots=True)
    class WriteStateData(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[WriteShareGroupStateRequest.PartitionData] = f(array("PartitionData"))

    group_id: str = f("string")
    topics: list[WriteShareGroupStateRequest.WriteStateData] = f(array("WriteStateData"))


@dataclass(slots=True)
class WriteShareGroupStateResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class PartitionResult(Struct):
        partition: int = f("int32")
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)

    @dataclass(slots=True)
    class WriteStateResult(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[WriteShareGroupStateResponse.PartitionResult] = f(array("PartitionResult"))

    results: list[WriteShareGroupStateResponse.WriteStateResult] = f(array("WriteStateResult"))


@dataclass(slots=True)
class DeleteShareGroupStateRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class PartitionData(Struct):
        partition: int = f("int32")

    @dataclass(slots=True)
    class DeleteStateData(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[DeleteShareGroupStateRequest.PartitionData] = f(array("PartitionData"))

    group_id: str = f("string")
    topics: list[DeleteShareGroupStateRequest.DeleteStateData] = f(array("DeleteStateData"))


@dataclass(slots=True)
class DeleteShareGroupStateResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class PartitionResult(Struct):
        partition: int = f("int32")
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)

    @dataclass(slots=True)
    class DeleteStateResult(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[DeleteShareGroupStateResponse.PartitionResult] = f(array("PartitionResult"))

    results: list[DeleteShareGroupStateResponse.DeleteStateResult] = f(array("DeleteStateResult"))


@dataclass(slots=True)
class ReadShareGroupStateSummaryRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class PartitionData(Struct):
        partition: int = f("int32")
        leader_epoch: int = f("int32")

    @dataclass(slots=True)
    class ReadStateSummaryData(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = f(array("PartitionData"))

    group_id: str = f("string")
    topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData] = f(array("ReadStateSummaryData"))


@dataclass(slots=True)
class ReadShareGroupStateSummaryResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class PartitionResult(Struct):
        partition: int = f("int32")
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)
        state_epoch: int = f("int32")
        leader_epoch: int = f("int32")
        start_offset: int = f("int64")
        delivery_complete_count: int = f("int32", "1+", default=-1)

    @dataclass(slots=True)
    class ReadStateSummaryResult(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = f(array("PartitionResult"))

    results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult] = f(array("ReadStateSummaryResult"))
