"""The command `offsets`: a preview by default, a write with --execute, input and output forms, exit codes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from brokerd.wire.errors import ErrorCode
from controlplane.domain.offset_reset_types import CommittedOffset
from controlplane.models import Change, OffsetReset
from tests.unit.controlplane.group_world import OFFSETS, GroupWorld, group_world, member

pytestmark = pytest.mark.django_db


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> GroupWorld:
    return group_world(monkeypatch)


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("offsets", *arguments, stdout=out)
    return out.getvalue()


def reset(*arguments: str) -> str:
    return run("reset", "--group", "g", *arguments)


def previewed_offsets() -> dict[int, int | None]:
    """New offsets of the latest preview."""
    return {p.partition: p.after and p.after.offset for p in OffsetReset.objects.latest("id").rows}


def test_a_reset_without_execute_is_a_preview(group: GroupWorld) -> None:
    text = reset("--to-earliest", "--topic", "orders")
    assert [line.split() for line in text.splitlines()[1:4]] == [
        ["orders-0", "50", "10", "40", "0", "-"],
        ["orders-1", "100", "10", "90", "0", "-"],
        ["orders-2", "none", "10", "-", "-", "-"],
    ]
    assert "Nothing was written" in text and group.offsets["g"] == OFFSETS
    text = reset("--to-earliest", "--execute", "--comment", "replay")
    assert group.offsets["g"] == dict.fromkeys(OFFSETS, CommittedOffset(10))
    change = Change.objects.latest("id")
    assert change.actor.endswith("(weir offsets)") and change.comment == "replay"
    applied = OffsetReset.objects.latest("id").pk
    assert f"Undo: weir offsets undo {applied}" in text
    assert "Nothing was written" in run("undo", str(applied))
    run("undo", str(applied), "--execute")
    assert group.offsets["g"] == OFFSETS
    assert run("list", "--group", "g").count("applied") == 2 and "no offset resets" in run("list", "--group", "x")


def test_each_target_of_a_reset(group: GroupWorld, tmp_path: Path) -> None:
    group.offsets["source"] = {("orders", 1): CommittedOffset(33)}
    file = tmp_path / "offsets.csv"
    file.write_text("orders,1,44\n")
    for arguments, expected in (
        (("--to-latest",), {0: 100, 1: 100}),
        (("--to-offset", "60"), {0: 60, 1: 60}),
        (("--shift-by", "-5"), {0: 45, 1: 95}),
        (("--shift-by", "-5", "--topic", "orders:1"), {1: 95}),
        (("--from-group", "source"), {1: 33}),
        (("--from-file", str(file)), {1: 44}),
        (("--to-datetime", "1970-01-01T00:00:00.070"), {0: 70, 1: 70}),  # the fake log has its offsets as times
        (("--to-datetime", "1970-01-01T02:00:00.070+02:00"), {0: 70, 1: 70}),
        (("--by-duration", "1d"), {0: 100, 1: 100}),
        (("--delete", "--topic", "orders"), {0: None, 1: None}),
    ):
        reset(*arguments)
        assert previewed_offsets() == expected, arguments


def test_output_for_programs(group: GroupWorld, tmp_path: Path) -> None:
    detail = json.loads(reset("--to-earliest", "--json"))
    assert (detail["row"]["state"], detail["partitions"][0]["after"]) == ("previewed", 10)
    listed = reset("--shift-by", "-5", "--csv")
    assert listed == "orders,0,45\norders,1,95\n"
    file = tmp_path / "offsets.csv"
    file.write_text(listed)
    reset("--from-file", str(file))
    assert previewed_offsets() == {0: 45, 1: 95}


def test_a_rejection_exits_with_1_and_a_partial_failure_with_2(group: GroupWorld) -> None:
    group.members = [member()]
    with pytest.raises(CommandError, match="active") as rejection:
        reset("--to-earliest", "--execute")
    assert rejection.value.returncode == 1
    assert "waits until" in reset("--to-earliest", "--execute", "--wait", "5")
    run("cancel", str(OffsetReset.objects.latest("id").pk))
    group.members, group.errors = [], {("orders", 1): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    with pytest.raises(CommandError, match="Applied in part") as partial:
        reset("--to-earliest", "--execute")
    assert partial.value.returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--to-earliest", "--to-latest"),
        ("--to-datetime", "yesterday"),
        ("--by-duration", "soon"),
        ("--from-file", "/does/not/exist"),
        ("--delete",),
        ("--to-earliest", "--topic", "orders:x"),
    ],
)
def test_invalid_options_are_rejected(group: GroupWorld, arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        reset(*arguments)
    assert not OffsetReset.objects.exists()


def test_a_member_is_removed(group: GroupWorld) -> None:
    group.members = [member()]
    assert "confirmed" in run("remove-member", "--group", "g", "--member", "m-1")
    with pytest.raises(CommandError, match="no member"):
        run("remove-member", "--group", "g", "--member", "m-1")
