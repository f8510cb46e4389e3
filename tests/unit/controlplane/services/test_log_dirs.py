"""Moves between the log directories of a broker: review, rejections, audit, cancellation."""

from __future__ import annotations

import pytest

from controlplane.clients.connection import Declined, NoResponse
from controlplane.models import Change
from controlplane.services import Rejected
from controlplane.services import log_dirs as services
from tests.unit.controlplane.log_dir_responses import MOVING, Directories, reporting
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
ALICE = {"actor": "alice", "comment": "disk a is full"}


@pytest.fixture
def directories(monkeypatch: pytest.MonkeyPatch) -> Directories:
    World()
    return reporting(monkeypatch)


def changes() -> list[tuple[str, str, str]]:
    return [(c.verb, c.object_name, c.outcome) for c in Change.objects.order_by("id")]


def test_a_move_is_previewed_started_and_recorded(directories: Directories) -> None:
    preview = services.preview_log_dir_move(1, "orders", 0, "/b")
    assert (preview.source, preview.target, preview.size_bytes, preview.free_bytes) == (
        "/a",
        "/b",
        3_000_000,
        5_000_000,
    )
    assert directories.asked == []
    _, outcome = services.move_to_log_dir(1, "orders", 0, "/b", **ALICE)
    assert (outcome, directories.asked) == ("confirmed", [("orders", 0, "/b")])
    change = Change.objects.get()
    assert (change.verb, change.object_kind, change.object_name) == (
        "replica.log_dir",
        "replica",
        "orders-0 on broker 1",
    )
    assert (change.before, change.after) == ({"directory": "/a"}, {"directory": "/b"}) and "3.0 MB" in change.detail


def test_rejections_have_reasons_and_are_recorded(directories: Directories) -> None:
    for place, reason in (
        ((9, "orders", 0, "/b"), "Broker 9 does not exist"),
        ((1, "orders", 0, "/c"), "has no log directory /c"),
        ((1, "orders", 0, "/failed"), "is offline"),
        ((1, "orders", 0, "/a"), "is in /a already"),
        ((1, "orders", 9, "/b"), "no replica of orders-9"),
    ):
        with pytest.raises(Rejected, match=reason):
            services.move_to_log_dir(*place, **ALICE)
    with pytest.raises(Rejected, match="Give a reason"):
        services.move_to_log_dir(1, "orders", 0, "/b", actor="alice", comment=" ")
    directories.dirs = MOVING
    with pytest.raises(Rejected, match="being moved already"):
        services.move_to_log_dir(1, "orders", 1, "/b", **ALICE)
    directories.silent = True
    with pytest.raises(Rejected, match="are unknown: frozen"):
        services.move_to_log_dir(1, "orders", 0, "/b", **ALICE)
    assert directories.asked == [] and {o for _, _, o in changes()} == {"refused"} and len(changes()) == 8


def test_the_broker_rejects_or_does_not_respond(directories: Directories) -> None:
    directories.error = Declined("KAFKA_STORAGE_ERROR")
    with pytest.raises(Rejected, match="Broker 1 rejected the request: KAFKA_STORAGE_ERROR"):
        services.move_to_log_dir(1, "orders", 0, "/b", **ALICE)
    directories.error = NoResponse("it is frozen")
    _, outcome = services.move_to_log_dir(1, "orders", 0, "/b", **ALICE)
    assert outcome == "unknown" and [o for _, _, o in changes()] == ["refused", "unknown"]


def test_directories_that_can_take_a_replica(directories: Directories) -> None:
    assert services.other_directories(1, "orders", 0) == ("/a", [("/b", 5_000_000)])
    directories.dirs = MOVING
    assert services.other_directories(1, "orders", 1) == ("/a", [])
    with pytest.raises(Rejected, match="no replica of orders-9"):
        services.other_directories(1, "orders", 9)


def test_a_move_is_cancelled_by_a_move_to_the_present_directory(directories: Directories) -> None:
    with pytest.raises(Rejected, match="is not being moved"):
        services.cancel_log_dir_move(1, "orders", 1, actor="alice")
    directories.dirs = MOVING
    assert services.cancel_log_dir_move(1, "orders", 1, actor="alice") == "confirmed"
    assert directories.asked == [("orders", 1, "/a")]
    assert [(v, o) for v, _, o in changes()] == [
        ("replica.log_dir_cancel", "refused"),
        ("replica.log_dir_cancel", "confirmed"),
    ]
