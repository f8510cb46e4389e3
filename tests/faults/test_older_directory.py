"""An older copy of a broker's data directory is restored on processes: no acknowledged record is lost, and the reason is reported.

Both replicas die; the follower's older directory is restored and started first. Same machine and kernel: the boot id is no proof.
"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from brokerd.cluster.broker_lives import DirectoryDoubt
from tests.cluster.local import LocalCluster, wait_for
from tests.faults.scene import check_records, cluster, create, leader, produce, state

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


def copy_of(c: LocalCluster, broker_id: int) -> Path:
    target = c.folder / f"copy-{broker_id}"
    shutil.copytree(c.folder / f"data-{broker_id}", target, symlinks=True)
    return target


def copy_while_running(c: LocalCluster, broker_id: int) -> Path:
    return copy_of(c, broker_id)


def copy_after_clean_shutdown(c: LocalCluster, broker_id: int) -> Path:
    """The copy does not contain the start after the shutdown."""
    c.kill(f"broker-{broker_id}", signal.SIGTERM)
    target = copy_of(c, broker_id)
    c.start_broker(broker_id)
    return target


@pytest.mark.parametrize(
    ("copied", "doubt"),
    [(copy_while_running, DirectoryDoubt.COPIED), (copy_after_clean_shutdown, DirectoryDoubt.OLDER)],
    ids=["while running", "after a clean shutdown"],
)
def test_an_older_directory_put_back_loses_no_acknowledged_record(
    tmp_path: Path, copied: object, doubt: DirectoryDoubt
) -> None:
    with cluster(tmp_path, 3) as c:
        create(c, "older", min_insync=2, replicas=[1, 2])
        first = [f"a{i}" for i in range(100)]
        produce(c, "older", first)
        assert callable(copied)
        copy = copied(c, 2)
        wait_for(lambda: set(state(c, "older").isr_ids) == {1, 2} and leader(c, "older") == 1, "both in the ISR")
        second = [f"b{i}" for i in range(100)]
        produce(c, "older", second)
        for broker_id in (1, 2):
            c.kill(f"broker-{broker_id}")
        wait_for(lambda: not c.image.alive(1) and not c.image.alive(2), "both deaths in the metadata log")
        shutil.rmtree(c.folder / "data-2")
        copy.rename(c.folder / "data-2")
        c.start_broker(2)
        wait_for(lambda: c.image.alive(2), "the restored broker to be registered")
        assert c.image.brokers[2].tail_doubt == doubt
        assert leader(c, "older") == -1, "the restored broker leads without the second hundred records"
        reports = [r.text for r in c.rows.reports if str(r.subject) == "broker 2"]
        assert any(f"reason={doubt}" in text for text in reports), reports
        c.start_broker(1)
        check_records(c, "older", [*first, *second])
