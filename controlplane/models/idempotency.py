"""Keys of POST requests over REST, with the responses that a repeated request gets. Only `services.idempotency` writes them."""

from __future__ import annotations

from django.db import models


class IdempotencyKey(models.Model):
    """`status` is null while the request runs, and forever if the server ended before its response was stored.

    `fingerprint`: HMAC-SHA-256 of method, path and body, hexadecimal. `body`: the JSON of the response; null if it had none or contained a secret.
    """

    actor = models.CharField(max_length=150)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64, help_text="HMAC-SHA-256 of method, path and body.")
    status = models.PositiveSmallIntegerField(null=True, help_text="HTTP status of the response; null: none yet.")
    body = models.JSONField(null=True)
    secret = models.BooleanField(default=False, help_text="The response contained a secret, which is not stored.")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["actor", "key"], name="one_request_per_actor_and_key")]

    def __str__(self) -> str:
        return f"{self.actor} {self.key}"
