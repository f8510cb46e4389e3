"""`make bench-readers`: values of a pass, and the verdict beside a peer."""

from __future__ import annotations

import pytest

from bench.peer.runs import Spent
from bench.readers import Measurements, measurements, report


def test_measurements_count_all_readers_until_the_last_one_has_finished() -> None:
    spent = Spent(seconds=4.0, client_cpu=2.0, client_demand=2.0, brokers_cpu=1.5, all_cores=4.0)
    found = measurements([(2.0, 1_000_000_000), (4.0, 1_000_000_000)], spent)
    assert found == Measurements(mb_per_s=500.0, cpu_s_per_gb=0.75, first_to_last=0.5, client_bound=False)


@pytest.mark.parametrize(("peer_mb_per_s", "behind"), [(99.0, False), (101.0, True)])
def test_a_lower_rate_than_a_peers_is_reported(
    peer_mb_per_s: float, behind: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    weir, peer = (Measurements(rate, 0.5, 1.0, False) for rate in (100.0, peer_mb_per_s))
    assert report(16_384, 10, {"weir": [weir] * 3, "kafka-4.3.1": [peer] * 3}) == behind
    assert f"weir / kafka-4.3.1: {100 / peer_mb_per_s:.2f}" in capsys.readouterr().out
