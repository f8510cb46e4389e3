"""`weir lookup TOPIC KEY`: records of a topic by key, newest first. The look-up is recorded in the audit log."""

from __future__ import annotations

import getpass
import json
from datetime import UTC, datetime
from typing import TypedDict, Unpack

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.selectors.common import as_dict
from controlplane.selectors.key_lookups import SCAN_BYTES, KeyLookup, PartitionLookupState
from controlplane.selectors.lake_lookups import LakeState
from controlplane.services import Rejected
from controlplane.services.records import look_up_records_as

LAKE_TEXTS = {
    LakeState.SEARCHED: "{lake.records} records found, {lake.files} files read",
    LakeState.NOT_REACHED: "not searched yet; it is searched after the records of the brokers",
    LakeState.NO_TABLE: "it has no table of the topic",
    LakeState.FAILED: "{lake.problem}",
}
INCOMPLETE_CODE = 3
"""Exit code when more records may match."""


class LookupOptions(TypedDict):
    topic: str
    key: str
    hex: bool
    header: str
    partition: int | None
    from_time: str | None
    to_time: str | None
    limit: int
    bytes_max: int
    lake: bool
    token: str
    json: bool


class Command(BaseCommand):
    help = "Find records of a topic by key, newest first. Exit code 3: more records may match, --token continues."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("topic")
        parser.add_argument("key")
        parser.add_argument("--hex", action="store_true", help="KEY is hexadecimal")
        parser.add_argument("--header", default="", help="search for KEY as a value of this record header")
        parser.add_argument("--partition", type=int)
        parser.add_argument(
            "--from", dest="from_time", metavar="TIME", help="2026-11-21T03:04:05, UTC without an offset"
        )
        parser.add_argument("--to", dest="to_time", metavar="TIME")
        parser.add_argument("--limit", type=int, default=32, help="records (default 32)")
        parser.add_argument("--bytes-max", type=int, default=SCAN_BYTES, help="bytes of log to read at most")
        parser.add_argument(
            "--lake", action="store_true", help="search for records below the log start offsets in the lake"
        )
        parser.add_argument("--token", default="", help="continue: the token of the previous response")
        parser.add_argument("--json", action="store_true")

    def handle(self, *_args: str, **options: Unpack[LookupOptions]) -> None:
        try:
            key = bytes.fromhex(options["key"]) if options["hex"] else options["key"].encode()
        except ValueError:
            raise CommandError(f"{options['key']!r} is not hexadecimal.") from None
        try:
            found = look_up_records_as(
                f"{getpass.getuser()} (weir lookup)",
                options["topic"],
                key,
                header=options["header"],
                partitions=() if options["partition"] is None else (options["partition"],),
                from_ms=_ms(options["from_time"]),
                to_ms=_ms(options["to_time"]),
                limit=options["limit"],
                bytes_max=options["bytes_max"],
                token=options["token"],
                lake=options["lake"],
            )
        except Rejected as e:
            raise CommandError(e.reason) from e
        if options["json"]:
            self.stdout.write(json.dumps(as_dict(found)))
        else:
            self._write(found)
        if not found.complete:
            raise CommandError("More records may match.", returncode=INCOMPLETE_CODE)

    def _write(self, lookup: KeyLookup) -> None:
        for row in lookup.rows:
            at = "-" if row.timestamp_ms is None else datetime.fromtimestamp(row.timestamp_ms / 1000, UTC).isoformat()
            value = "null" if row.value is None else row.value
            self.stdout.write(f"{lookup.topic}-{row.partition}  {row.offset}  {at}  {row.key}  {value}")
        for p in lookup.partitions:
            if p.state == PartitionLookupState.FAILED:
                self.stderr.write(f"partition {p.partition}: {p.problem}")
        self.stderr.write(
            f"{len(lookup.rows)} records, {lookup.log_bytes} bytes of log and {lookup.index_bytes} bytes of indexes read in "
            f"{lookup.took_ms} ms"
        )
        if lookup.lake is not None:
            self.stderr.write(f"lake: {LAKE_TEXTS[LakeState(lookup.lake.state)].format(lake=lookup.lake)}")
        if lookup.token:
            self.stderr.write(f"continue with --token {lookup.token}")


def _ms(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{text!r} is not a time; use 2026-11-21T03:04:05.") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
