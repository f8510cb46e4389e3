"""`weir elect_leaders`: elect preferred leaders. Without --execute it shows the preview and changes nothing."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import TypedDict, Unpack

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.models.change import Outcome
from controlplane.selectors.common import as_dict
from controlplane.selectors.leader_elections import ElectionPreview
from controlplane.services import Rejected
from controlplane.services import leader_elections as services

UNKNOWN_CODE = 2
"""Exit code when an outcome is unknown. 1: rejected, nothing was changed."""


class ElectionOptions(TypedDict):
    topic: str | None
    partition: int | None
    execute: bool
    comment: str
    json: bool


class Command(BaseCommand):
    help = "Elect preferred leaders: of the cluster, a topic, or a partition. Exit code 2: an outcome is unknown."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        scope = parser.add_mutually_exclusive_group(required=True)
        scope.add_argument("--all-topic-partitions", action="store_true")
        scope.add_argument("--topic")
        parser.add_argument("--partition", type=int, help="of --topic")
        parser.add_argument("--execute", action="store_true", help="elect the leaders")
        parser.add_argument("--comment", default="", help="recorded in the audit log")
        parser.add_argument("--json", action="store_true")
        parser.add_argument("--data-dir", type=Path, help="of the local cluster")

    def handle(self, *_args: str, **options: Unpack[ElectionOptions]) -> None:
        topic, partition = options["topic"] or "", options["partition"]
        try:
            if options["execute"]:
                actor = f"{getpass.getuser()} (weir elect_leaders)"
                result = services.elect_preferred_leaders(topic, partition, actor=actor, comment=options["comment"])
                self._print_result(result, as_json=options["json"])
            else:
                self._print_preview(services.preview_election(topic, partition), as_json=options["json"])
        except Rejected as e:
            raise CommandError(e.reason) from e

    def _print_result(self, result: services.PreferredElection, *, as_json: bool) -> None:
        """Raises CommandError if an outcome is unknown."""
        if as_json:
            self.stdout.write(json.dumps(as_dict(result), indent=2))
        else:
            for r in result.rows:
                self.stdout.write(f"{r.topic}-{r.index}\t{r.leader_before} -> {r.preferred}\t{r.outcome}\t{r.reason}")
            self.stdout.write(
                f"{result.confirmed} confirmed, {result.unchanged} unchanged, {result.refused} rejected, {result.unknown} unknown."
            )
        if result.outcome == Outcome.UNKNOWN:
            raise CommandError("An outcome is unknown; see the audit log.", returncode=UNKNOWN_CODE)

    def _print_preview(self, preview: ElectionPreview, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(as_dict(preview), indent=2))
            return
        for r in preview.rows:
            self.stdout.write(f"{r.topic}-{r.index}\t{r.leader} -> {r.preferred}\t{r.verdict}\t{r.reason}")
        self.stdout.write(
            f"{preview.electable} would change, {preview.blocked_total} cannot. Nothing was changed; --execute elects."
        )
