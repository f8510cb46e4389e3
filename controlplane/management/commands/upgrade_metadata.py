"""`manage.py upgrade_metadata`: raise the metadata level after every broker and controller runs the new version.

The active controller decides. A rejection names the brokers to upgrade first. Only a backup restores an earlier level.
"""

from __future__ import annotations

import time
from uuid import uuid4

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from brokerd.cluster import znodes
from brokerd.cluster.blocking import BlockingStore, Unreachable, connected
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import MetadataError, RequestCompleted
from brokerd.cluster.requests import UNKNOWN_BROKER, ForwardedRequest, LevelResult, RaiseMetadataLevel
from brokerd.cluster.typed_json import decode
from controlplane.clients.settings import zookeeper_store
from controlplane.disaster.metalog import read_log

WAIT_SECONDS = 30.0


class Command(BaseCommand):
    help = "Raise the metadata level (docs/how-to/upgrade.md). Brokers of older versions cannot register afterwards."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--level", type=int, help="default: the highest that the active controller supports")
        parser.add_argument(
            "--show",
            action="store_true",
            help="print the current level and the levels that each broker supports; change nothing",
        )
        parser.add_argument("--data-dir", help="data directory of the local cluster (default: data)")
        parser.add_argument("--zookeeper", default=settings.WEIR.zookeeper, help="host:port[,host:port..]")

    def handle(self, *_args: str, zookeeper: str, show: bool, level: int | None, **_options: object) -> None:
        try:
            with connected(zookeeper_store(zookeeper, 6000)) as zk:
                if show:
                    self._show(zk)
                else:
                    self._raise(zk, level)
        except (Unreachable, MetadataError) as e:
            raise CommandError(str(e)) from e

    def _show(self, zk: BlockingStore) -> None:
        self.stdout.write(f"level {read_log(zk).image.metadata_version}")
        for name in zk.children(znodes.BROKERS):
            node = zk.get(znodes.broker(int(name)))
            if node.ok:
                low, high = znodes.Registration.decode(node.data, 0).metadata_levels
                self.stdout.write(f"broker {name} supports {low} to {high}")

    def _raise(self, zk: BlockingStore, level: int | None) -> None:
        before = read_log(zk).image.seq
        request_id = f"level-{uuid4().hex}"
        payload = RaiseMetadataLevel(principal="manage.py", level=level)
        request = ForwardedRequest(request_id, UNKNOWN_BROKER, UNKNOWN_BROKER, payload)
        zk.create(znodes.request(request_id), request.encode(), ephemeral=True)
        response, image = self._wait_for_response(zk, request_id, before)
        if response.error:
            raise CommandError(f"Not raised: {response.message}.")
        result: LevelResult = decode(LevelResult, response.result)
        self.stdout.write(f"The cluster is at metadata level {result.level}.")
        if away := sorted(b.broker_id for b in image.brokers.values() if not b.alive):
            self.stdout.write(f"Brokers {away} are not running; they need the new version before they can register.")

    def _wait_for_response(self, zk: BlockingStore, request_id: str, after: int) -> tuple[RequestCompleted, Image]:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            read = read_log(zk)
            for record in read.records_after(after):
                if isinstance(record, RequestCompleted) and record.request_id == request_id:
                    return record, read.image
            time.sleep(0.2)
        raise CommandError(
            f"No controller answered in {WAIT_SECONDS:.0f} s; the level may have changed. `--show` prints the current level."
        )
