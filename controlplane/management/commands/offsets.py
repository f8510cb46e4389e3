"""`weir offsets`: reset, delete and restore committed offsets of a consumer group. Without --execute a command shows its preview and writes nothing,
as kafka-consumer-groups does. The options of `reset` have the names of that tool."""

from __future__ import annotations

import csv
import getpass
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict, Unpack

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.domain.offset_input import duration_ms, offsets_of_text, scope_of_text
from controlplane.domain.offset_reset_types import WAIT_MINUTES_MAX, ResetSpec, ResetState, ResetTarget
from controlplane.domain.text import duration
from controlplane.models import OffsetReset
from controlplane.selectors import offset_resets as selectors
from controlplane.selectors.common import as_dict
from controlplane.services import Rejected, group_members
from controlplane.services import offset_resets as services

FAILED_CODE = 2
"""Exit code of a reset that was applied in part. 1: rejected, nothing was written."""

COLUMNS = ("PARTITION", "CURRENT", "NEW", "REPLAYED", "SKIPPED", "TIME", "NOTE")


class OffsetsOptions(TypedDict):
    act: str
    group: str
    topic: list[str]
    to_earliest: bool
    to_latest: bool
    to_datetime: str | None
    by_duration: str | None
    to_offset: int | None
    shift_by: int | None
    from_group: str | None
    from_file: str | None
    delete: bool
    id: int
    execute: bool
    wait: int
    comment: str
    json: bool
    csv: bool
    member: str


class Command(BaseCommand):
    help = "Reset, delete and restore committed offsets of a consumer group."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True, metavar="ACT")
        reset = acts.add_parser("reset", help="preview a reset; with --execute apply it")
        reset.add_argument("--group", required=True)
        reset.add_argument("--topic", action="append", default=[], help="TOPIC or TOPIC:0,3; may be repeated")
        target = reset.add_mutually_exclusive_group(required=True)
        target.add_argument("--to-earliest", action="store_true")
        target.add_argument("--to-latest", action="store_true")
        target.add_argument("--to-datetime", metavar="TIME", help="2026-11-21T03:04:05, UTC without an offset")
        target.add_argument("--by-duration", metavar="DURATION", help="so long ago: 15m, 2h, 1d, PT15M")
        target.add_argument("--to-offset", type=int)
        target.add_argument("--shift-by", type=int, help="records; negative = back")
        target.add_argument("--from-group", metavar="GROUP", help="copy the offsets of this group")
        target.add_argument(
            "--from-file", metavar="FILE", help="CSV topic,partition,offset or JSON; - = standard input"
        )
        target.add_argument("--delete", action="store_true", help="delete the committed offsets; needs --topic")
        undo = acts.add_parser("undo", help="preview the undo of an applied reset; with --execute apply it")
        undo.add_argument("id", type=int)
        for changing in (reset, undo):
            changing.add_argument("--execute", action="store_true", help="write the offsets")
            changing.add_argument(
                "--wait",
                type=int,
                default=0,
                metavar="MINUTES",
                help=f"while the group is active, wait so long (at most {WAIT_MINUTES_MAX}); the worker applies it",
            )
            changing.add_argument("--comment", default="", help="recorded in the audit log")
            form = changing.add_mutually_exclusive_group()
            form.add_argument("--json", action="store_true")
            form.add_argument("--csv", action="store_true", help="the new offsets, as input of --from-file")
        cancel = acts.add_parser("cancel", help="end the wait of a reset")
        cancel.add_argument("id", type=int)
        listed = acts.add_parser("list", help="resets of the last seven days")
        listed.add_argument("--group", default="")
        remove = acts.add_parser("remove-member", help="remove a member from a group")
        remove.add_argument("--group", required=True)
        remove.add_argument("--member", required=True, help="member ID or group.instance.id")
        remove.add_argument("--comment", default="", help="recorded in the audit log")
        for act in (reset, undo, cancel, listed, remove):
            act.add_argument("--data-dir", type=Path, help="of the local cluster")

    def handle(self, *_args: str, **options: Unpack[OffsetsOptions]) -> None:
        actor = f"{getpass.getuser()} (weir offsets)"
        try:
            match options["act"]:
                case "reset":
                    self._apply_and_print(
                        services.preview(options["group"], _spec(options), actor=actor), actor, options
                    )
                case "undo":
                    self._apply_and_print(services.undo(options["id"], actor=actor), actor, options)
                case "cancel":
                    services.cancel(options["id"], actor=actor)
                    self.stdout.write(f"Offset reset {options['id']} cancelled.")
                case "list":
                    self._list(options["group"])
                case "remove-member":
                    outcome = group_members.remove_member(
                        options["group"], options["member"], actor=actor, comment=options["comment"]
                    )
                    self.stdout.write(f"Member {options['member']}: {outcome}.")
        except Rejected as e:
            raise CommandError(e.reason) from e

    def _apply_and_print(self, row: OffsetReset, actor: str, options: OffsetsOptions) -> None:
        """Apply the preview if --execute is given, and print it."""
        if options["execute"]:
            row = services.apply(row.pk, actor=actor, comment=options["comment"], wait_minutes=options["wait"])
        detail = selectors.reset_detail(row.pk)
        assert detail is not None
        if options["json"]:
            self.stdout.write(json.dumps(as_dict(detail), indent=2))
        elif options["csv"]:
            csv.writer(self.stdout, lineterminator="\n").writerows(
                (p.topic, p.partition, p.after) for p in detail.partitions if p.after is not None and not p.problem
            )
        else:
            self._print_table(detail)
        if row.state == ResetState.FAILED:
            raise CommandError(row.note, returncode=FAILED_CODE)

    def _print_table(self, detail: selectors.OffsetResetDetail) -> None:
        rows = [COLUMNS, *(_cells(p) for p in detail.partitions)]
        widths = [max(len(r[i]) for r in rows) for i in range(len(COLUMNS))]
        for cells in rows:
            self.stdout.write(
                "  ".join(
                    c.ljust(w) if i in (0, len(COLUMNS) - 1) else c.rjust(w)
                    for i, (c, w) in enumerate(zip(cells, widths, strict=True))
                ).rstrip()
            )
        reset = detail.row
        changed = f"{reset.changes:,} of {reset.partitions:,} partitions, {reset.replayed:,} records replayed, {reset.skipped:,} skipped"
        match reset.state:
            case ResetState.PREVIEWED:
                text = f"Preview {reset.id} of group {reset.group_id}: {changed}. Nothing was written; --execute writes it."
            case ResetState.APPLIED:
                text = f"Offset reset {reset.id} of group {reset.group_id} applied: {changed}. Undo: weir offsets undo {reset.id}"
            case ResetState.WAITING:
                text = f"Offset reset {reset.id} waits until {reset.wait_until:%Y-%m-%d %H:%M} UTC for group {reset.group_id} to be empty."
            case _:
                text = f"Offset reset {reset.id} of group {reset.group_id} is {reset.state}. {reset.note}"
        self.stdout.write(text)

    def _list(self, group: str) -> None:
        page = selectors.reset_list(group_id=group, per_page=500)
        for r in page.rows:
            self.stdout.write(
                f"{r.id}\t{r.group_id}\t{r.target}\t{r.state}\t{r.changes}\t{r.actor}\t{r.created_at:%F %T}"
            )
        if not page.rows:
            self.stdout.write("no offset resets")


def _spec(options: OffsetsOptions) -> ResetSpec:
    """Raises Rejected."""
    topics, partitions = scope_of_text(" ".join(options["topic"]))
    at: int | None = None
    if options["to_datetime"] is not None:
        at = _time_ms(options["to_datetime"])
    elif options["by_duration"] is not None:
        at = max(0, time.time_ns() // 1_000_000 - duration_ms(options["by_duration"]))
    chosen = {
        ResetTarget.EARLIEST: options["to_earliest"],
        ResetTarget.LATEST: options["to_latest"],
        ResetTarget.TIME: at is not None,
        ResetTarget.OFFSET: options["to_offset"] is not None,
        ResetTarget.SHIFT: options["shift_by"] is not None,
        ResetTarget.GROUP: options["from_group"] is not None,
        ResetTarget.FILE: options["from_file"] is not None,
        ResetTarget.DELETE: options["delete"],
    }
    return ResetSpec(
        target=next(t for t, given in chosen.items() if given),
        topics=topics,
        partitions=partitions,
        time_ms=at,
        offset=options["to_offset"],
        shift=options["shift_by"],
        source_group=options["from_group"] or "",
        offsets={} if options["from_file"] is None else offsets_of_text(_text(options["from_file"])),
    )


def _time_ms(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as e:
        raise CommandError(f"--to-datetime {text!r}: {e}") from e
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _text(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise CommandError(f"--from-file {name}: {e}") from e


def _cells(partition: selectors.ResetPartitionRow) -> tuple[str, ...]:
    def number(value: int | None, missing: str = "-") -> str:
        return missing if value is None else f"{value:,}"

    span = (
        "-"
        if partition.span_ms is None
        else ("> " if partition.span_at_least else "") + str(duration(partition.span_ms / 1000))
    )
    notes = [
        partition.problem,
        partition.error,
        partition.limited and f"limited to {partition.limited}",
        f"{partition.lost:,} records lost" if partition.lost else "",
    ]
    return (
        f"{partition.topic}-{partition.partition}",
        number(partition.now, "none"),
        number(partition.after, "none"),
        number(partition.replayed),
        number(partition.skipped),
        span,
        ", ".join(n for n in notes if n),
    )
