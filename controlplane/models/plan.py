"""A saved plan: compared, approved, started later. Its content never changes; the digest covers every part. Parts are stored in chunks, so
that a page reads one or two rows of a plan of any size.
"""

from __future__ import annotations

from django.db import models

from controlplane.db.typed_json import TypedJSONField
from controlplane.domain import scope as scopes
from controlplane.domain.scope import Scope
from controlplane.models.move import Move
from weir_common.phrases import texts_from_json, texts_to_json


class Plan(models.Model):
    """`digest`: SHA-256 over the parts (`services.plans`). `overrides`: safety rules (sentences) that the plan overrides. `brokers`: bytes in and
    out per broker. `metadata_seq`: the entry of the metadata log up to which the mirror had been read at planning time. `move`: the last move
    of the plan. `dropped_at`: removed from the list of plans."""

    name = models.CharField(max_length=200)
    scope: models.Field[Scope, Scope] = TypedJSONField(
        load=scopes.parse, dump=scopes.to_json, default=scopes.PartitionsScope
    )
    actor = models.CharField(max_length=150)
    comment = models.TextField(default="")
    digest = models.CharField(max_length=64, help_text="SHA-256 over the parts, hexadecimal.")
    parts = models.PositiveIntegerField()
    copies = models.PositiveIntegerField(help_text="Number of new replicas.")
    bytes_to_copy = models.BigIntegerField(null=True, help_text="Bytes; null: a size is unknown.")
    brokers = models.JSONField(default=list, help_text="[[broker, bytes in, bytes out], ...]")
    warnings = models.TextField(default="")
    overrides: models.Field[tuple[str, ...], tuple[str, ...]] = TypedJSONField(
        load=texts_from_json,
        dump=texts_to_json,
        default=tuple,
        help_text="Violated safety rules that the plan overrides, as sentences.",
    )
    metadata_seq = models.PositiveBigIntegerField(
        default=0, help_text="Entry of the metadata log up to which the plan was made."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    approved_by = models.CharField(max_length=150, default="")
    approved_comment = models.TextField(default="")
    approved_at = models.DateTimeField(null=True)
    move = models.ForeignKey(Move, on_delete=models.SET_NULL, null=True, related_name="+")
    dropped_at = models.DateTimeField(null=True, help_text="When it was removed from the list; null: listed.")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"plan {self.pk}"


class PlanChunk(models.Model):
    """Up to services.plans.CHUNK parts in order of topic and partition; the first one is part number * CHUNK. Each is
    [topic id, topic, partition, replicas from, replicas to, assignment generation, bytes to copy or null]."""

    plan = models.ForeignKey(Plan, on_delete=models.CASCADE, related_name="chunks")
    number = models.PositiveIntegerField(help_text="Place of the chunk, from 0.")
    parts = models.JSONField()

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["plan", "number"], name="one_chunk_per_number")]

    def __str__(self) -> str:
        return f"chunk {self.number} of plan {self.plan_id}"
