"""Operations without a review: their effect, their undo, and their rejection."""

from __future__ import annotations

from typing import Any

from django.test import Client

from tests.unit.controlplane.world import World


def test_an_immediate_action_reports_its_effect_and_offers_its_undo(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    for verb, message, undo in (
        ("cordon", "Broker 2 cordoned", "uncordon"),
        ("uncordon", "Broker 2 uncordoned", "cordon"),
        ("demote", "Broker 2 demoted", "restore_leadership"),
        ("restore_leadership", "Leadership of broker 2 restored", "demote"),
    ):
        page = operator.post(f"/brokers/2/{verb}/", follow=True).content.decode()
        assert message in page and f'action="/brokers/2/{undo}/" class="undo"' in page
    page = operator.post(f"/moves/{seeded_cluster['move']}/pause/", follow=True).content.decode()
    assert "Move 1 paused" in page and 'action="/moves/1/resume/" class="undo"' in page
    page = operator.post("/moves/1/approve/", follow=True)
    assert page.status_code == 409 and "Rejected" in page.content.decode()


def test_a_rejected_action_is_a_page_with_the_reason_and_a_way_back(world: World, operator: Client) -> None:
    page = operator.post("/pipeline/7/resume/")
    text = page.content.decode()
    assert page.status_code == 409 and "does not exist" in text and 'href="/pipeline/7/"' in text


def test_an_action_without_an_undo_offers_none(world: World, operator: Client) -> None:
    for verb in ("cordon", "demote"):
        operator.post(f"/brokers/2/{verb}/", follow=True)
    page = operator.post("/brokers/2/restore/", follow=True).content.decode()
    assert "Broker 2 uncordoned and its leadership restored." in page and 'class="undo"' not in page
