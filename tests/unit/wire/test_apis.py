"""The table of supported APIs, compared with Kafka's definitions, with the broker's handlers, and with the requirements of clients."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any, cast

import kio.schema
import pytest

from brokerd.cluster.store import Store
from brokerd.config.broker import BrokerConfig
from brokerd.runtime.broker import BrokerServer
from brokerd.wire.apis import APIS, Api, ApiKey, api_versions_response
from brokerd.wire.errors import ErrorCode
from tests.protocol.test_messages_oracle import name_of

ALL = list(APIS.values())
names = [a.name for a in ALL]
CLIENTS_MAX = {
    # The highest version of clients without flexible versions: a higher minimum would exclude them.
    "aiokafka 0.14": {0: 8, 1: 11, 2: 5, 3: 5, 8: 3, 9: 3, 10: 1, 11: 5, 12: 1, 13: 1, 14: 3, 15: 3, 16: 1, 18: 2, 19: 3,
                      20: 3, 21: 2, 22: 0, 32: 2, 33: 1, 37: 1, 42: 1},
    "kafkajs 2.2": {0: 7, 1: 11, 2: 3, 3: 6, 8: 5, 9: 4, 10: 2, 11: 5, 12: 3, 13: 3, 14: 3, 15: 2, 16: 2, 18: 2, 19: 3, 20: 1,
                    21: 1, 22: 1, 32: 2, 33: 1, 37: 1, 42: 1},
    "librdkafka 2.15": {0: 10, 1: 16, 2: 7, 3: 13, 8: 9, 9: 9, 10: 2, 11: 5, 12: 3, 13: 1, 14: 3, 15: 5, 16: 4, 18: 3, 19: 4,
                        20: 4, 21: 2, 22: 4, 23: 2, 32: 1, 33: 2, 37: 2, 42: 2, 44: 1, 47: 0},
}  # fmt: skip


@pytest.mark.parametrize("api", ALL, ids=names)
def test_each_api_row_has_its_key_and_messages(api: Api) -> None:
    assert APIS[api.key] is api
    assert (api.request.__name__, api.response.__name__) == (f"{api.name}Request", f"{api.name}Response")
    assert api.request.FLEXIBLE == api.response.FLEXIBLE
    assert 0 <= api.min_version <= api.max_version


@pytest.mark.parametrize("api", ALL, ids=names)
def test_keys_names_and_the_first_flexible_version_are_kafkas(api: Api) -> None:
    package = importlib.import_module(f"kio.schema.{name_of(api)}")
    known = sorted(int(m.name[1:]) for m in pkgutil.iter_modules(package.__path__) if m.name[1:].isdigit())
    assert api.max_version <= known[-1]
    for version in range(max(api.min_version, known[0]), api.max_version + 1):
        request: Any = importlib.import_module(f"kio.schema.{name_of(api)}.v{version}.request")
        theirs = getattr(request, f"{api.name}Request")
        assert theirs.__api_key__ == api.key
        assert theirs.__flexible__ == api.flexible(version), f"version {version}"
    assert kio.schema


def test_every_advertised_api_has_a_handler_and_the_reverse(tmp_path: Path) -> None:
    """The broker itself returns its handlers; no loop is needed."""
    config = BrokerConfig.parse({"broker.id": "1", "log.dirs": str(tmp_path), "listeners": "127.0.0.1:0"})
    broker = BrokerServer(config, lambda: cast("Store", UnconnectedStore()))
    try:
        assert set(broker.dispatch.handlers) == set(APIS)
    finally:
        broker.listeners.stop_accepting()
        broker.jobs.close()
        broker.loop.close()


class UnconnectedStore:
    """A store that never connects."""

    zk_session = 0
    on_session: Any = None

    def __init__(self) -> None:
        import os

        self._read, self._write = os.pipe()

    def fileno(self) -> int:
        return self._read

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


def test_the_advertised_versions_are_those_of_the_table() -> None:
    rows = {r.api_key: (r.min_version, r.max_version) for r in api_versions_response(3).api_keys}
    assert set(rows) == set(APIS)
    for key, (low, high) in rows.items():
        api = APIS[key]
        assert high == api.max_version
        assert low == (api.min_version if api.advertised_min is None else api.advertised_min)


def test_only_produce_advertises_versions_that_it_does_not_serve() -> None:
    """librdkafka sends compressed batches uncompressed to a broker that does not offer Produce 0 (KAFKA-18659)."""
    assert [a.key for a in ALL if a.advertised_min is not None] == [ApiKey.PRODUCE]
    assert APIS[ApiKey.PRODUCE].advertised_min == 0


def test_an_unimplemented_api_is_not_advertised() -> None:
    between_brokers = {4, 5, 6, 7, 56, 58}
    kraft = {52, 53, 54, 55, 59, 62, 63, 64, 70, 73, 80, 81, 82}
    assert not set(APIS) & (between_brokers | kraft | {67, 71, 72})


@pytest.mark.parametrize("client", CLIENTS_MAX)
def test_every_client_has_a_common_version(client: str) -> None:
    for key, highest in CLIENTS_MAX[client].items():
        api = APIS[key]
        assert api.min_version <= highest, f"{client} speaks {api.name} up to {highest} only"


def test_an_unsupported_version_of_api_versions_returns_the_ranges() -> None:
    body = api_versions_response(0, error=ErrorCode.UNSUPPORTED_VERSION)
    assert (body.error_code, len(body.api_keys)) == (35, len(APIS))
