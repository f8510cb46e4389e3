"""The real web application on seeded rows, with a hand instead of an observer: `python -m tests.browser.served PORT` seeds the database of
$WEIR_DATA_DIR, serves, and publishes each line of its standard input ({"kind", "data"}) on the live feed; kind "age" makes the data that many
seconds old from then on. What it does not show: the cluster."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time

USER, PASSWORD = "operator", "a long password"


def prepare() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.site.settings")
    import django

    django.setup()
    from django.contrib.auth import get_user_model
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    users = get_user_model().objects
    if not users.filter(username=USER).exists():
        users.create_user(USER, password=PASSWORD, is_staff=True)
        users.create_user("onlooker", password=PASSWORD)
        from tests.unit.console.seed import seed

        seed(extra_topics=60)


def hand() -> None:
    """Publish what is written on standard input; keep the data at its age meanwhile."""
    from datetime import timedelta

    from controlplane.live import hub

    age_s = 0.0

    def keep() -> None:
        from django.utils import timezone

        from controlplane.models import Cluster

        while True:
            then = timezone.now() - timedelta(seconds=age_s)
            Cluster.objects.update(observed_at=then, sampled_at=then)
            time.sleep(0.5)

    threading.Thread(target=keep, daemon=True).start()
    for line in sys.stdin:
        said = json.loads(line)
        if said["kind"] == "age":
            age_s = float(said["data"])
        else:
            hub.publish(said["kind"], said["data"])


async def main(port: int) -> None:
    import uvicorn

    from controlplane.live import hub, through_loop

    hub.deliver_through(through_loop(asyncio.get_running_loop()))
    threading.Thread(target=hand, daemon=True).start()
    config = uvicorn.Config("controlplane.site.asgi:application", host="127.0.0.1", port=port, log_level="warning")
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    prepare()
    asyncio.run(main(int(sys.argv[1])))
