"""The messages of configs: fields appear with the version that introduced them, and each version reads its own bytes."""

from __future__ import annotations

import pytest

from brokerd.wire import framing
from brokerd.wire.apis import ApiKey
from brokerd.wire.messages import DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest


@pytest.mark.parametrize("version", range(1, 5))
def test_a_described_config_has_type_and_documentation_from_version_3_on(version: int) -> None:
    r = DescribeConfigsResponse
    config = r.DescribeConfigsResourceResult(
        name="retention.ms", value="1", config_type=5, documentation="How long records are kept."
    )
    sent = r(results=[r.DescribeConfigsResult(resource_type=2, resource_name="t", configs=[config])])
    frame = memoryview(b"".join(framing.encode_response(ApiKey.DESCRIBE_CONFIGS, version, 1, sent))[4:])
    _, read = framing.decode_response(ApiKey.DESCRIBE_CONFIGS, version, frame)
    (found,) = read.results[0].configs
    assert (found.name, found.value) == ("retention.ms", "1")
    assert (found.config_type, found.documentation) == ((5, "How long records are kept.") if version >= 3 else (0, ""))


@pytest.mark.parametrize("version", range(2))
def test_a_changed_config_keeps_its_operation(version: int) -> None:
    r = IncrementalAlterConfigsRequest
    change = r.AlterableConfig(name="cleanup.policy", config_operation=2, value="compact")
    sent = r(resources=[r.AlterConfigsResource(resource_type=2, resource_name="t", configs=[change])])
    frame = framing.encode_request(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, 1, "c", sent)
    _, read = framing.decode_request(memoryview(bytes(frame)[4:]))
    assert read == sent


def test_no_named_config_means_all_configs() -> None:
    r = DescribeConfigsRequest
    sent = r(resources=[r.DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)])
    frame = framing.encode_request(ApiKey.DESCRIBE_CONFIGS, 4, 1, "c", sent)
    _, read = framing.decode_request(memoryview(bytes(frame)[4:]))
    assert read.resources[0].configuration_keys is None
