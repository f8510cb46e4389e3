"""The kept metadata log (decision 061). Only the monitor writes these rows.

The state after entry N is an image up to N, and the entries after this image. Times are Unix milliseconds.
"""

from __future__ import annotations

from django.db import models


class MetadataImage(models.Model):
    """All records of the image after entry `seq`. `data`: `controlplane.domain.metadata_history.pack_image`."""

    seq = models.BigIntegerField(unique=True)
    at_ms = models.BigIntegerField(help_text="Unix milliseconds from which on the image is the state.")
    controller_epoch = models.BigIntegerField()
    size_bytes = models.PositiveIntegerField(help_text="Bytes of `data`.")
    data = models.BinaryField()

    class Meta:
        ordering = ["seq"]

    def __str__(self) -> str:
        return f"image after entry {self.seq}"


class MetadataSegment(models.Model):
    """The entries from `first_seq` to `last_seq`, without a gap. `data`: `controlplane.domain.metadata_history.pack_entries`."""

    first_seq = models.BigIntegerField(unique=True)
    last_seq = models.BigIntegerField(db_index=True)
    begins_ms = models.BigIntegerField(help_text="Unix milliseconds of the first entry.")
    ends_ms = models.BigIntegerField(help_text="Unix milliseconds of the last entry.")
    controller_epoch = models.BigIntegerField()
    size_bytes = models.PositiveIntegerField(help_text="Bytes of `data`.")
    data = models.BinaryField()

    class Meta:
        ordering = ["first_seq"]

    def __str__(self) -> str:
        return f"entries {self.first_seq} to {self.last_seq}"
