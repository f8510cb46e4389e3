"""A plan as an artefact: kept, compared, approved, begun later. Law: what it says never changes; its digest is over every part. Parts are kept in
chunks, so that a page reads one or two rows of a plan of any size."""

from __future__ import annotations

from django.db import models

from controlplane.models.move import Move


class Plan(models.Model):
    """`digest`: SHA-256 over the parts (`services.plans`). `overrides`: safety refusals (sentences) that it goes against. `brokers`: bytes in and
    out per broker. `metadata_seq`: the entry of the metadata log up to which the mirror had been read when it was made. `move` is the last that was
    made of it; `dropped_at` takes it out of the list."""

    name = models.CharField(max_length=200)
    scope = models.JSONField(default=dict)
    who = models.CharField(max_length=150)
    why = models.TextField(default="")
    digest = models.CharField(max_length=64)
    parts = models.PositiveIntegerField()
    copies = models.PositiveIntegerField()
    bytes_to_copy = models.BigIntegerField(null=True)
    brokers = models.JSONField(default=list)
    warnings = models.TextField(default="")
    overrides = models.JSONField(default=list)
    metadata_seq = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    approved_by = models.CharField(max_length=150, default="")
    approved_why = models.TextField(default="")
    approved_at = models.DateTimeField(null=True)
    move = models.ForeignKey(Move, on_delete=models.SET_NULL, null=True, related_name="+")
    dropped_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]


class PlanChunk(models.Model):
    """Up to services.plans.CHUNK parts in order of topic and partition, the first of them being part number * CHUNK. Each is
    [topic id, topic, partition, replicas from, replicas to, assignment generation, bytes to copy or null]."""

    plan = models.ForeignKey(Plan, on_delete=models.CASCADE, related_name="chunks")
    number = models.PositiveIntegerField()
    parts = models.JSONField()

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["plan", "number"], name="one_chunk_per_number")]
