"""The Django app of the console. It starts the in-memory history of the charts."""

from __future__ import annotations

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "console"
    verbose_name = "Weir console"

    def ready(self) -> None:
        from controlplane.monitoring import history

        history.begin()
