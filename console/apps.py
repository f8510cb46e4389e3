"""The console as a Django app: begins to remember the live feed's figures, so that a chart opened later has a past."""

from __future__ import annotations

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "console"
    verbose_name = "Weir console"

    def ready(self) -> None:
        from controlplane.selectors import console_history

        console_history.begin()
