"""What can be proposed: each kind of act that overrides a safety refusal, what both people are shown of it, and how it is carried out.

Law: one line of the table per kind; what is shown rests on rows and is the same for both people; carrying out twice does no more than once.
Called by `proposals` alone. Must not come in: who may approve (`proposals`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.models import Broker, Change, Move, Partition
from controlplane.models.change import Outcome
from controlplane.models.move import MoveState
from controlplane.services import moves, tails
from controlplane.services.common import Refused, record
from controlplane.services.proposals import Act, Kind, Shown

PART_OF_DIGEST = ("topic_id", "partition", "replicas_from", "replicas_to", "read_generation")


# -- a move that goes against a safety refusal: target is its number; arguments {"start": begin at once} -----------------------


def _show_move(target: str, arguments: Mapping[str, Any]) -> Shown:
    move = _move(target)
    if not move.overrides:
        raise Refused(f"Move {target} overrides nothing; approve or start it without a second person.", "target")
    if move.state != MoveState.PLANNED:
        raise Refused(f"Move {target} is {move.state}; only a planned one can be proposed.", "target")
    digest = hashlib.sha256()
    for row in move.parts.order_by("id").values_list(*PART_OF_DIGEST):
        digest.update(json.dumps([str(row[0]), *row[1:]]).encode())
    begin = "It begins at once." if arguments.get("start") else "It may be started from then on."
    count = move.parts.count()
    return Shown(
        f"Move {target} against a safety refusal",
        (*move.overrides, f"It moves {count} partition{'' if count == 1 else 's'}. {begin}"),
        {"move": move.pk, "plan": digest.hexdigest(), "throttle_bytes_per_s": move.throttle_bytes_per_s},
    )


def _approve_move(act: Act) -> tuple[Outcome, str]:
    move = _move(act.target)
    if move.state == MoveState.PLANNED:
        move = moves.approve_move(move.pk, who=act.who, why=act.why, second=True)
    elif move.state != MoveState.APPROVED:
        return Outcome.UNCHANGED, f"Move {move.pk} is {move.state} already."
    if act.arguments.get("start"):
        moves.start_move(move.pk, who=act.who, why=act.why)
        return Outcome.CONFIRMED, f"Move {move.pk} is approved and has begun."
    return Outcome.CONFIRMED, f"Move {move.pk} is approved."


def _move(target: str) -> Move:
    move = Move.objects.filter(pk=int(target)).first() if target.isdigit() else None
    if move is None:
        raise Refused(f"There is no move {target!r}.", "target")
    return move


# -- a cut, which deletes what retention has not deleted yet: target is the move; arguments {"confirm": the name, typed} ------------


def _show_cut(target: str, arguments: Mapping[str, Any]) -> Shown:
    move = _move(target)
    preview = tails.cut_preview(move.pk)
    if preview.problem is not None:
        raise Refused(preview.problem, "target")
    if str(arguments.get("confirm", "")).strip() != preview.confirm:
        raise Refused(f"Type {preview.confirm!r} to confirm what is deleted.", "confirm")
    groups = sorted({g.group_id for g in preview.groups})
    below = {f"{p.topic}-{p.partition}": p.end for p in preview.parts}
    lines = [
        f"{name}: every record below offset {end} is deleted, for everybody, as by DeleteRecords."
        for name, end in below.items()
    ]
    lines += [f"Group {g} has not read all of it." for g in groups]
    return Shown(
        f"Cut move {move.pk}",
        (*_first(lines, "lines"), "Whether others read there without a group (Spark, consumers with their own offsets) is unknown. Nothing takes this back."),
        {"move": move.pk, "deleted_below": below, "groups_behind": groups},
        tuple(_first(preview.sentences(), "figures")),
    )  # fmt: skip


def _cut(act: Act) -> tuple[Outcome, str]:
    move = _move(act.target)
    if (
        Change.objects.filter(verb="move.cut", object_id=f"move-{move.pk}", why=act.why)
        .exclude(outcome=Outcome.REFUSED)
        .exists()
    ):
        return Outcome.UNCHANGED, f"Move {move.pk} was cut by this already."
    cut = tails.cut_move(move.pk, below=act.facts["deleted_below"], who=act.who, why=act.why)
    whole = len(act.facts["deleted_below"])
    return (
        Outcome.CONFIRMED,
        f"The old records of {cut} of {whole} partitions are being deleted; the move goes on by itself.",
    )


LINES_MAX = 200
"""Of partitions and groups named one by one to whoever decides: the facts have them all."""


def _first(lines: Sequence[str], what: str) -> list[str]:
    more = len(lines) - LINES_MAX
    return [*lines[:LINES_MAX], *([f"And {more} {what} more."] if more > 0 else [])]


# -- an unclean election: target is topic-partition ----------------------------------------------------------------------------


def _offline(target: str) -> tuple[Partition, list[int]]:
    """The partition, which has no leader, and its replicas whose brokers are alive."""
    topic, _, index = target.rpartition("-")
    row = None
    if index.isdigit():
        rows = Partition.objects.filter(topic__name=topic, index=int(index)).select_related("topic")
        row = rows.prefetch_related("replica_rows").first()
    if row is None:
        raise Refused(f"There is no partition {target!r}.", "target")
    if row.leader is not None:
        raise Refused(f"{target} is led by broker {row.leader}; no other election is needed.", "target")
    alive = set(Broker.objects.filter(alive=True).values_list("broker_id", flat=True))
    living = [b for b in row.replicas if b in alive]
    if not living:
        raise Refused(f"None of {target}'s replicas {row.replicas} is alive; start one of their brokers first.")
    return row, living


def _show_election(target: str, arguments: Mapping[str, Any]) -> Shown:
    row, living = _offline(target)
    ends = {r.broker_id: r.end_offset for r in row.replica_rows.all()}
    proven = sorted({*row.isr, *row.elr, *row.last_isr})
    lines = [
        f"Nobody who can prove to hold all of it is alive: that were brokers {proven}."
        if proven
        else "Nobody can prove to hold all of it.",
        f"One of brokers {living} leads from then on, and every other copy is cut to its length.",
    ]
    for b in living:
        held, whole = ends.get(b), row.end_offset
        if held is None or whole is None:
            lines.append(f"Broker {b}: how much it holds is not known; what it lacks is lost for good.")
        else:
            lines.append(
                f"Broker {b} was last seen at offset {held}: of {whole} known ones {max(0, whole - held)} and all written since would be lost."
            )
    facts = {
        "replicas": row.replicas, "isr": row.isr, "elr": row.elr, "last_isr": row.last_isr, "alive": living,
        "partition_epoch": row.partition_epoch,
    }  # fmt: skip
    return Shown(f"Unclean election of {target}", tuple(lines), facts)


def _elect(act: Act) -> tuple[Outcome, str]:
    from controlplane import kafka

    target = act.target
    topic, _, index = target.rpartition("-")
    try:
        needed = kafka.elect_uncleanly(topic, int(index))
        outcome, said = (
            (Outcome.CONFIRMED, f"{target} is led again; see its partition page by whom.")
            if needed
            else (Outcome.UNCHANGED, f"{target} was led already.")
        )
    except kafka.NoAnswer as e:
        outcome, said = Outcome.UNKNOWN, f"No answer: {e} Look at the partition before it is proposed anew."
    except kafka.Declined as e:
        outcome, said = Outcome.REFUSED, f"The controller refused: {e}"
    after = {"partition": int(index)}
    record(act.who, "topic.elect", "topic", topic, why=act.why, after=after, outcome=outcome, detail=said)
    return outcome, said


KINDS: dict[str, Kind] = {
    "move.approve": Kind("A move against a safety refusal", _show_move, _approve_move),
    "move.cut": Kind("A cut: old records deleted before their time", _show_cut, _cut),
    "election.unclean": Kind("An unclean election", _show_election, _elect),
}
