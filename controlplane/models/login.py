"""Failed logins. Only `services.logins` counts them. A successful login deletes the row of its name and address."""

from __future__ import annotations

from django.db import models


class LoginFailure(models.Model):
    """`address` "": the count over all addresses. `name` as entered; a user of that name need not exist."""

    name = models.CharField(max_length=150, help_text="As entered; a user of this name need not exist.")
    address = models.CharField(max_length=64, help_text="Address of the client; empty: all addresses together.")
    failures = models.PositiveIntegerField(default=0)
    last_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "address"], name="one_row_per_name_and_address")]

    def __str__(self) -> str:
        return f"{self.name} from {self.address or 'all addresses'}: {self.failures}"
