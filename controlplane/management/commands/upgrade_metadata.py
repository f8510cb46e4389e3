"""`manage.py upgrade_metadata`: raise the level of the metadata log once every broker and controller runs the new program.

Law: the acting controller decides; a refusal says who has to be upgraded first. There is no way back but a backup.
"""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from brokerd.cluster import znodes
from brokerd.cluster.blocking import BlockingStore, Unreachable, connected
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import MetadataError, RequestAnswered
from controlplane.client import zookeeper_store
from controlplane.disaster.metalog import read_log

WAIT_SECONDS = 30.0


class Command(BaseCommand):
    help = "Raise the metadata log's level (docs/how-to/upgrade.md). Brokers of older programs cannot come back afterwards."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--level", type=int, help="default: the highest that the acting controller writes")
        parser.add_argument(
            "--show", action="store_true", help="say the level in force and who reads what; change nothing"
        )
        parser.add_argument("--data-dir", help="the house's folder (default: data)")
        parser.add_argument("--zookeeper", default=settings.HOUSE.zookeeper, help="host:port[,host:port..]")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with connected(zookeeper_store(options["zookeeper"], 6000)) as zk:
                if options["show"]:
                    self._show(zk)
                else:
                    self._raise(zk, options["level"])
        except (Unreachable, MetadataError) as e:
            raise CommandError(str(e)) from e

    def _show(self, zk: BlockingStore) -> None:
        self.stdout.write(f"level {read_log(zk).image.metadata_version}")
        for name in zk.children(znodes.BROKERS):
            node = zk.get(znodes.broker(int(name)))
            if node.ok:
                low, high = znodes.Registration.decode(node.data, 0).metadata_levels
                self.stdout.write(f"broker {name} reads {low} to {high}")

    def _raise(self, zk: BlockingStore, level: int | None) -> None:
        before = read_log(zk).image.seq
        request_id = f"level-{uuid4().hex}"
        payload: dict[str, Any] = {"principal": "manage.py"} | ({} if level is None else {"level": level})
        request = znodes.ForwardedRequest(request_id, -1, -1, znodes.RAISE_LEVEL, payload)
        zk.create(znodes.request(request_id), request.encode(), ephemeral=True)
        answer, image = self._answer(zk, request_id, before)
        if answer.error:
            raise CommandError(f"Not raised: {answer.message}.")
        self.stdout.write(f"The metadata log is at level {answer.result['level']}.")
        if away := sorted(b.broker_id for b in image.brokers.values() if not b.alive):
            self.stdout.write(f"Brokers {away} are away; they need the new program before they can come back.")

    def _answer(self, zk: BlockingStore, request_id: str, after: int) -> tuple[RequestAnswered, Image]:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            read = read_log(zk)
            for record in read.records_after(after):
                if isinstance(record, RequestAnswered) and record.request_id == request_id:
                    return record, read.image
            time.sleep(0.2)
        raise CommandError(
            f"No controller answered in {WAIT_SECONDS:.0f} s; nothing may have changed. `--show` says what is in force."
        )
