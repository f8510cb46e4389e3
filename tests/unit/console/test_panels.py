"""A request for live panels gets these panels, and reads only their rows."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext

from console.panels import RequestedPanels, known_position, lazy
from console.views import shell
from controlplane.models import ObservedPartition, ObservedTopic, Topic
from controlplane.monitoring import live_selectors
from controlplane.selectors import shared_rows

PANELS = {
    "/": ["incidents", "brokers-strip", "problems", "lagging", "moves-now", "changes-now", "incident-calls"],
    "/brokers/": ["restart-now", "list"],
    "/brokers/1/": ["broker-acts", "restart"],
    "/topics/flights/": ["topic-state", "waiting", "list"],
    "/moves/1/": ["move-acts", "move-drained", "move-brokers", "move-tabs", "list", "move-timeline"],
    "/groups/slow-reader/": ["list", "members"],
    "/alerts/": ["list"],
    "/alerts/1/": ["incident", "before", "timeline"],
}
VOID = {"input", "br", "img", "meta", "link"}


def panel(html: str, element_id: str) -> str:
    """The text of an element. An age in seconds is replaced: it may differ between two requests."""
    text, depth, parts = html[html.index(f' id="{element_id}"') :], 1, []
    for match in re.finditer(r">([^<]*)<(/?)(\w+)", text):
        parts.append(match.group(1).strip())
        depth += 0 if match.group(3) in VOID else -1 if match.group(2) else 1
        if depth == 0:
            break
    return re.sub(r"\b\d+ s\b", "N s", " ".join(filter(None, parts)))


@pytest.mark.parametrize("path", PANELS)
def test_the_response_has_the_panels_and_no_frame(seeded_cluster: dict[str, Any], operator: Client, path: str) -> None:
    whole = operator.get(path).content.decode()
    response = operator.get(path, headers={"Weir-Panels": " ".join(PANELS[path])})
    found = response.content.decode()
    assert response.status_code == 200 and "<header" in whole and "<header" not in found
    for element_id in PANELS[path]:
        assert panel(found, element_id) == panel(whole, element_id)
    assert any(panel(found, element_id) for element_id in PANELS[path])


def test_a_pending_change_of_a_topic_is_reloaded_until_it_is_applied(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    """No update names the panel of a change that is not applied yet: the page said "creating" forever. static/weir/panels.js reloads every panel
    with an unsettled part."""
    both = {"Weir-Panels": "topic-state waiting"}
    applied = ObservedTopic.objects.get(name="flights").generation
    Topic.objects.filter(name="flights").update(generation=applied + 1)
    pending = operator.get("/topics/flights/", headers=both).content.decode()
    assert pending.count("data-unsettled") == pending.count('data-refresh="changes') == 2
    assert f"(generation {applied} of {applied + 1})" in panel(pending, "waiting")
    Topic.objects.filter(name="flights").update(generation=applied)
    settled = operator.get("/topics/flights/", headers=both).content.decode()
    assert "data-unsettled" not in settled and 'data-f="health"' in settled and not panel(settled, "waiting")


@pytest.mark.parametrize(
    ("path", "one"), [("/", "changes-now"), ("/brokers/1/", "broker-acts"), ("/moves/1/", "move-tabs")]
)
def test_selectors_of_other_panels_are_not_called(
    seeded_cluster: dict[str, Any], operator: Client, path: str, one: str
) -> None:
    operator.get(path)
    with CaptureQueriesContext(connection) as whole:
        operator.get(path)
    with CaptureQueriesContext(connection) as read:
        response = operator.get(path, headers={"Weir-Panels": one})
    assert f'id="{one}"' in response.content.decode()
    assert 2 * len(read) < len(whole)


def test_a_request_without_the_header_asks_for_the_whole_page() -> None:
    requests = RequestFactory()
    page = RequestedPanels(requests.get("/"))
    assert page.whole and "list" in page
    some = RequestedPanels(requests.get("/", headers={"Weir-Panels": "list  tabs"}))
    assert not some.whole and "list" in some and "tabs" in some and "other" not in some
    none = RequestedPanels(requests.get("/", headers={"Weir-Panels": ""}))
    assert not none.whole and "list" not in none


@pytest.mark.parametrize(
    ("header", "position"),
    [("r1 12", ("r1", 12)), (" 0", ("", 0)), ("", None), ("r1", None), ("r1 -1", None), ("r1 x", None), ("r1 ²", None)],
)
def test_a_request_for_panels_has_the_position_of_its_page(header: str, position: tuple[str, int] | None) -> None:
    request = RequestFactory().get("/", headers={"Weir-Panels": "list", "Weir-Position": header})
    assert known_position(request) == position


def test_panels_are_not_older_than_the_page_and_pages_have_the_position_of_their_rows(
    seeded_cluster: dict[str, Any], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_rows, "SHARED_SECONDS", 600.0)
    newest = [("run", 5)]
    monkeypatch.setattr(live_selectors, "latest", lambda: newest[0])
    panels = {"Weir-Panels": "problems"}
    shared_rows.set_sharing(True)
    try:
        assert 'data-run="run" data-seq="5"' in operator.get("/").content.decode()
        ObservedPartition.objects.filter(topic__name="flights", index=0).update(leader=None, in_trouble=True)
        ObservedTopic.objects.filter(name="flights").update(offline=1)
        newest[0] = ("run", 6)
        assert 'data-run="run" data-seq="5"' in operator.get("/").content.decode()
        old = operator.get("/", headers={**panels, "Weir-Position": "run 5"}).content.decode()
        new = operator.get("/", headers={**panels, "Weir-Position": "run 6"}).content.decode()
        assert "flights-0<" not in old and "flights-0<" in new
    finally:
        shared_rows.set_sharing(False)


def test_a_page_that_changes_something_shares_no_rows(
    seeded_cluster: dict[str, Any], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[object] = []

    def enter(*arguments: object) -> AbstractContextManager[tuple[str, int]]:
        entered.append(arguments)
        return nullcontext(("", 0))

    monkeypatch.setattr(shell, "use_shared_rows", enter)
    operator.post("/topics/new/", {"name": ""})
    assert entered == []
    operator.get("/topics/new/")
    assert len(entered) == 1


def test_a_lazy_value_is_read_once_and_only_when_it_is_used() -> None:
    reads: list[int] = []
    value = lazy(lambda n: reads.append(n) or [n], 3)
    assert reads == []
    assert value() is value() and reads == [3]


def test_a_panel_whose_rows_are_lazy_names_its_own_id() -> None:
    """A misspelt id in `"..." in panels` would hide a panel from every live update."""
    for template in (Path(__file__).parents[3] / "templates" / "console").rglob("*.html"):
        text = template.read_text()
        for element_id in re.findall(r'"([\w-]+)" in panels', text):
            own = re.search(rf'id="{element_id}"', text)
            assert own or '{% include "console/topic_"' in text, f"{template.name}: {element_id}"
