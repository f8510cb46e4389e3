"""`manage.py verify_audit`: verify the hash chain of the audit log. Reads only. Exits with 1 if the chain is broken."""

from __future__ import annotations

import json

from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    help = "Verify the hash chain of the audit log and print its head. Store the head elsewhere for later checks."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--head", metavar="NUMBER:DIGEST", help="an earlier head, which must be a link of the chain"
        )
        parser.add_argument("--json", dest="as_json", action="store_true", help="one line of JSON")

    def handle(self, *_args: str, head: str | None, as_json: bool, **_options: object) -> None:
        from controlplane.services.audit import verify_chain

        verdict = verify_chain(_parse_seal(head))
        last = f"{verdict.head[0]}:{verdict.head[1]}"
        if as_json:
            facts = {"changes": verdict.changes, "links": verdict.links, "head": last, "problems": verdict.problems}
            self.stdout.write(json.dumps(facts))
        else:
            self.stdout.write(f"{verdict.changes} changes, {verdict.links} links, head {last}")
        if verdict.problems:
            raise CommandError("\n".join(verdict.problems))


def _parse_seal(text: str | None) -> tuple[int, str] | None:
    if text is None:
        return None
    number, colon, digest = text.partition(":")
    if not (colon and number.isdigit()):
        raise CommandError(f"{text!r} is not a head; the format is NUMBER:DIGEST, for example 812:6f0c...")
    return int(number), digest
