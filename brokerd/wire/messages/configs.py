"""Messages for the configs of topics, brokers and groups. Descriptions only; names, types and versions are from Kafka's message definitions."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.wire.schema import Struct, array, f


@dataclass(slots=True)
class DescribeConfigsRequest(Struct):
    FLEXIBLE = 4

    @dataclass(slots=True)
    class DescribeConfigsResource(Struct):
        resource_type: int = f("int8")
        resource_name: str = f("string")
        configuration_keys: list[str] | None = f(array("string"), nullable="0+")

    resources: list[DescribeConfigsRequest.DescribeConfigsResource] = f(array("DescribeConfigsResource"))
    include_synonyms: bool = f("bool", "1+")
    include_documentation: bool = f("bool", "3+")


@dataclass(slots=True)
class DescribeConfigsResponse(Struct):
    FLEXIBLE = 4

    @dataclass(slots=True)
    class DescribeConfigsSynonym(Struct):
        name: str = f("string", "1+")
        value: str | None = f("string", "1+", nullable="0+")
        source: int = f("int8", "1+")

    @dataclass(slots=True)
    class DescribeConfigsResourceResult(Struct):
        name: str = f("string")
        value: str | None = f("string", nullable="0+")
        read_only: bool = f("bool")
        config_source: int = f("int8", "1+", default=-1)
        is_default: bool = f("bool", "0")
        is_sensitive: bool = f("bool")
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = f(array("DescribeConfigsSynonym"), "1+")
        config_type: int = f("int8", "3+")
        documentation: str | None = f("string", "3+", nullable="0+")

    @dataclass(slots=True)
    class DescribeConfigsResult(Struct):
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+")
        resource_type: int = f("int8")
        resource_name: str = f("string")
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = f(array("DescribeConfigsResourceResult"))

    throttle_time_ms: int = f("int32")
    results: list[DescribeConfigsResponse.DescribeConfigsResult] = f(array("DescribeConfigsResult"))


@dataclass(slots=True)
class AlterConfigsRequest(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class AlterableConfig(Struct):
        name: str = f("string")
        value: str | None = f("string", nullable="0+")

    @dataclass(slots=True)
    class AlterConfigsResource(Struct):
        resource_type: int = f("int8")
        resource_name: str = f("string")
        configs: list[AlterConfigsRequest.AlterableConfig] = f(array("AlterableConfig"))

    resources: list[AlterConfigsRequest.AlterConfigsResource] = f(array("AlterConfigsResource"))
    validate_only: bool = f("bool")


@dataclass(slots=True)
class AlterConfigsResponse(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class AlterConfigsResourceResponse(Struct):
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+")
        resource_type: int = f("int8")
        resource_name: str = f("string")

    throttle_time_ms: int = f("int32")
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = f(array("AlterConfigsResourceResponse"))


@dataclass(slots=True)
class IncrementalAlterConfigsRequest(Struct):
    FLEXIBLE = 1

    @dataclass(slots=True)
    class AlterableConfig(Struct):
        name: str = f("string")
        config_operation: int = f("int8")
        value: str | None = f("string", nullable="0+")

    @dataclass(slots=True)
    class AlterConfigsResource(Struct):
        resource_type: int = f("int8")
        resource_name: str = f("string")
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = f(array("AlterableConfig"))

    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = f(array("AlterConfigsResource"))
    validate_only: bool = f("bool")


@dataclass(slots=True)
class IncrementalAlterConfigsResponse(Struct):
    FLEXIBLE = 1

    @dataclass(slots=True)
    class AlterConfigsResourceResponse(Struct):
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+")
        resource_type: int = f("int8")
        resource_name: str = f("string")

    throttle_time_ms: int = f("int32")
    responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = f(
        array("AlterConfigsResourceResponse")
    )
