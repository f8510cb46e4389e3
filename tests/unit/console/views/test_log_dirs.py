"""The pages of a broker's log directories, and the same in REST."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest
from django.test import Client

from controlplane.clients.connection import Declined, NoResponse
from controlplane.domain.log_dirs import LogDirState
from controlplane.models import Broker, Change
from tests.unit.controlplane.log_dir_responses import MOVING, Directories, reporting
from tests.unit.controlplane.world import World

LIST, MOVE, CANCEL = (f"/brokers/1/log-directories/{x}" for x in ("", "orders/0/move/", "orders/1/cancel/"))


@pytest.fixture(autouse=True)
def directories(monkeypatch: pytest.MonkeyPatch, world: World) -> Directories:
    return reporting(monkeypatch)


def test_the_page_lists_directories_and_replicas(operator: Client, viewer: Client, directories: Directories) -> None:
    page = operator.get(LIST).content.decode()
    assert ">/failed</a>" in page and "Unknown: the directory is offline." in page and f'href="{MOVE}"' in page
    assert "Moves between directories" not in page and "The replicas in /failed are offline." in page
    assert ">44<" in page and "t-amber" not in page
    directories.dirs = [replace(MOVING[0], free_bytes=216_000)]
    assert '<b class="t-amber">2.4</b>' in operator.get(LIST).content.decode()
    assert "No matching replicas." in operator.get(f"{LIST}?q=none&directory=/a").content.decode()
    assert f'href="{MOVE}"' not in viewer.get(LIST).content.decode()
    directories.dirs = MOVING
    page = operator.get(LIST).content.decode()
    assert "Moves between directories" in page and f'action="{CANCEL}"' in page and "25" in page
    directories.dirs = [replace(MOVING[0], state=LogDirState.SLOW, probe_ms=1_234)]
    page = operator.get(LIST).content.decode()
    assert "slow" in page and "1,234" in page
    directories.silent = True
    assert "does not respond, so its log directories are unknown" in operator.get(LIST).content.decode()
    assert operator.get("/brokers/9/log-directories/").status_code == 404
    assert LIST in operator.get("/brokers/1/").content.decode()


def test_the_page_of_a_broker_names_slow_and_hung_disks(operator: Client) -> None:
    assert "Slow log directories" not in operator.get("/brokers/1/").content.decode()
    Broker.objects.filter(pk=1).update(dirs_slow=["/a"], dirs_hung=["/b"], dirs_failed=["/b"])
    page = operator.get("/brokers/1/").content.decode()
    assert (
        "Slow log directories:" in page
        and "Move leadership off the broker" in page
        and "Disk does not respond:" in page
    )


def test_a_move_is_reviewed_and_then_started(operator: Client, directories: Directories) -> None:
    form = operator.get(MOVE).content.decode()
    assert "/b (5.0 MB free)" in form and "/failed" not in form
    review = operator.post(MOVE, {"directory": "/b", "comment": "disk a is full"}).content.decode()
    assert "copies 3.0 MB" in review and directories.asked == []
    fields = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', review[review.index('class="form"') :])
    response = operator.post(MOVE, {n: html.unescape(v) for n, v in fields}, follow=True)
    assert "orders-0 is moving to /b" in response.content.decode() and directories.asked == [("orders", 0, "/b")]
    assert Change.objects.get().comment == "disk a is full"


def test_rejections_stay_on_the_form(operator: Client, viewer: Client, directories: Directories) -> None:
    response = operator.post(MOVE, {"directory": "/b", "comment": ""})
    assert response.status_code == 400 and "Give a reason" in response.content.decode()
    response = operator.post(MOVE, {"directory": "/failed", "comment": "x"})
    assert response.status_code == 400 and "Select a valid choice" in response.content.decode()
    apply = {"directory": "/b", "comment": "x", "step": "apply"}
    directories.error = Declined("KAFKA_STORAGE_ERROR")
    response = operator.post(MOVE, apply)
    assert (
        response.status_code == 400
        and "Broker 1 rejected the request: KAFKA_STORAGE_ERROR" in response.content.decode()
    )
    directories.error = NoResponse("frozen")
    assert "it is unknown whether" in operator.post(MOVE, apply, follow=True).content.decode()
    assert viewer.post(MOVE, apply).status_code == 403
    assert operator.get("/brokers/1/log-directories/orders/9/move/").status_code == 409
    directories.dirs = MOVING
    assert "can take this replica" in operator.get("/brokers/1/log-directories/orders/1/move/").content.decode()


def test_a_move_is_cancelled(operator: Client, viewer: Client, directories: Directories) -> None:
    directories.dirs = MOVING
    assert operator.get(CANCEL).status_code == 302 and viewer.post(CANCEL).status_code == 403
    assert "the replica stays" in operator.post(CANCEL, follow=True).content.decode()
    directories.error = NoResponse("frozen")
    assert "it is unknown whether" in operator.post(CANCEL, follow=True).content.decode()
    assert operator.post("/brokers/1/log-directories/orders/7/cancel/").status_code == 409


def test_log_directories_by_rest(operator: Client, directories: Directories) -> None:
    found = operator.get("/api/v1/brokers/1/log-directories?query=orders&limit=1").json()
    assert [d["state"] for d in found["directories"]] == ["healthy", "healthy", "failed"]
    assert (found["total"], found["rows"][0]["directory"], found["sort"]) == (2, "/a", "-size_bytes")
    assert operator.get("/api/v1/brokers/9/log-directories").status_code == 404

    def post(verb: str, **body: object) -> tuple[int, object]:
        response = operator.post(
            f"/api/v1/brokers/1/log-directories/{verb}",
            {"topic": "orders", "partition": 0, **body},
            content_type="application/json",
        )
        return response.status_code, response.json() if response.content else None

    status, preview = post("move", directory="/b", dry=True)
    assert status == 200 and isinstance(preview, dict) and preview["size_bytes"] == 3_000_000 and not directories.asked
    assert post("move", directory="/b")[0] == 400, "a move needs a reason"
    assert post("move", directory="/x", comment="full")[0] == 400
    assert post("move", directory="/a", comment="full")[0] == 409
    assert post("move", directory="/b", comment="full")[0] == 200
    directories.error = NoResponse("frozen")
    assert post("move", directory="/b", comment="full")[0] == 202
    directories.dirs = MOVING
    assert post("cancel", partition=1)[0] == 202
    directories.error = None
    assert post("cancel", partition=1) == (204, None)
