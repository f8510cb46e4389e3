"""Every page of the console has a screenshot."""

from __future__ import annotations

import itertools
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import resolve, reverse
from django.utils import timezone

from console.urls import urlpatterns
from controlplane.domain.alert_types import AlertKind
from controlplane.models import Alert, Cluster
from controlplane.selectors.alerts import alert_row
from tests.browser import sample_alerts
from tests.browser.pages import NIGHT_PAGES, NOT_PAGES, PAGES, WITHOUT_LOGIN
from tests.browser.screenshots import LANGUAGES, SCALES, THEMES, WIDTHS, Choice, pictures
from tests.browser.seeded_server import moves_in_every_state
from tests.unit.console.seed import seed

VALUES: dict[str, Any] = {"language": "zh-hans", "topic_id": "00000000-0000-0000-0000-000000000001", "kind": "archive"}
PAIRS = list(itertools.product(LANGUAGES, THEMES, WIDTHS))


def unopened_names(names: set[str], addresses: list[str]) -> set[str]:
    """URL names that no address opens."""
    return names - {str(resolve(a.partition("?")[0]).url_name) for a in addresses}


def test_every_url_of_the_console_has_a_picture_or_is_no_page() -> None:
    names = {str(p.name) for p in urlpatterns}
    addresses = [*PAGES.values(), *WITHOUT_LOGIN.values()]
    assert unopened_names(names - NOT_PAGES, addresses) == set(), "add them to tests/browser/pages.py"
    assert names >= NOT_PAGES and unopened_names(set(NOT_PAGES), addresses) == NOT_PAGES
    assert unopened_names({"overview", "a-new-page"}, addresses) == {"a-new-page"}


def test_each_page_is_taken_in_each_language_theme_and_width() -> None:
    taken = list(pictures(["overview", "topics"]))
    assert len(taken) == len({p.path for p in taken}) == 2 * len(PAIRS) == 24
    assert set(SCALES) == set(WIDTHS)


def test_only_the_chosen_pictures_are_taken() -> None:
    (taken,) = pictures(["overview"], Choice(("zh-hans",), ("dark",), (768,)))
    assert taken.path.name == "768-zh-hans-dark.png"


def test_the_sample_of_a_night_has_an_open_alert_of_each_kind(operator: Client) -> None:
    """Pages of many kinds had never been looked at: the sample had four of them."""
    world = seed(extra_topics=60)["world"]
    moves_in_every_state()
    sample_alerts.create_resolved_alerts(world)
    ended = set(Alert.objects.filter(ended_at__isnull=False).values_list("kind", flat=True))
    assert ended >= {"broker_down", "zookeeper_away", "disk_low", "group_falling_behind"}, "the history is empty"
    sample_alerts.every_kind(world)
    Cluster.objects.update(observed_at=timezone.now() - timedelta(seconds=95))
    for kind in AlertKind:
        number = sample_alerts.NUMBERS[kind]
        row = alert_row(number)
        assert row is not None and (row.kind, row.ended_at) == (kind, None), kind
        assert NIGHT_PAGES[f"alert-{kind.replace('_', '-')}"] == f"/alerts/{number}/"
        assert operator.get(f"/alerts/{number}/").status_code == 200, kind
    overview = operator.get("/").content.decode()
    assert re.search(r">\s*\d+ more incidents", overview) and " object at 0x" not in overview
    incidents = overview.split('id="incidents"')[1].split('class="figures')[0]
    assert incidents.count("<ul>") >= 1, "no incident explains another alert"
    down = operator.get(f"/brokers/{sample_alerts.DOWN}/").content.decode()
    assert f"/alerts/{sample_alerts.NUMBERS[AlertKind.BROKER_DOWN]}/" in down, "the page of a broker has its alerts"
    first = operator.get("/topics/?state=problems&internal=1").content.decode()
    assert first.index("/topics/inventory/") < first.index("/topics/app-000.events/"), "offline topics come first"


def test_titles_and_buttons_of_alerts_are_chinese(operator: Client) -> None:
    """Titles had the name of a metric and the code of a reason, and the button to start a process its name in the supervisor."""
    operator.cookies["weir_language"] = "zh-hans"
    of_topic = {"metric": "records_per_s", "object_kind": "topic", "object_name": "flights"}
    of_client = {"client": "10.0.0.77", "client_reason": "authentication_failed"}
    of_cluster = {"metric": "records_per_s", "object_kind": "cluster"}
    examples: tuple[tuple[str, str, dict[str, str], str], ...] = (
        ("anomaly", "records_per_s of topic:flights", of_topic, "异常指标：每秒流入消息数（flights）。"),
        ("anomaly", "records_per_s of cluster", of_cluster, "异常指标：每秒流入消息数（集群）。"),
        ("client_refused", "an id", of_client, "被拒绝的客户端：10.0.0.77（认证失败）。"),
        ("partitions_offline", "", {}, "有分区没有 Leader。"),
    )
    for kind, subject, columns, title in examples:
        row = Alert.objects.create(
            kind=kind,
            subject=subject,
            severity="degraded",
            text="x",
            do="Run `weir help`.",
            since=timezone.now(),
            **columns,
        )
        page = operator.get(f"/alerts/{row.pk}/").content.decode()
        assert title in page and "<code>weir help</code>" in page, page


@pytest.mark.parametrize("name", sorted(NOT_PAGES))
def test_a_view_without_a_screenshot_is_not_a_page(seeded_cluster: dict[str, Any], operator: Client, name: str) -> None:
    pattern = next(p for p in urlpatterns if p.name == name)
    values = {n: VALUES.get(n, 1 if "Int" in type(c).__name__ else "x") for n, c in pattern.pattern.converters.items()}
    response = operator.get(reverse(name, kwargs=values))
    assert not (response.status_code == 200 and "<main" in response.content.decode()), name
