"""One real cluster per module: ZooKeeper, three brokers, a controller."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.local import LocalCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
