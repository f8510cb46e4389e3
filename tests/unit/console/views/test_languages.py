"""How a user chooses the language; the texts of the scripts; what is not translated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.utils import translation

from controlplane.models import Change


@pytest.fixture(autouse=True)
def english_afterwards() -> Iterator[None]:
    """A request leaves its language active in this thread."""
    yield
    translation.activate("en")


CHINESE = {"HTTP_ACCEPT_LANGUAGE": "zh-CN,zh;q=0.9,en;q=0.8"}


def test_english_is_the_default_and_the_browser_may_ask_for_chinese(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    page = operator.get("/brokers/").content.decode()
    assert '<html lang="en"' in page and "<h1>Brokers</h1>" in page
    assert operator.get("/brokers/", HTTP_ACCEPT_LANGUAGE="fr").content.decode().count("Rolling restart") > 0
    page = operator.get("/topics/", **CHINESE).content.decode()
    assert '<html lang="zh-hans"' in page and "副本不足" in page and "/texts/zh-hans.js" in page


def test_the_switch_keeps_the_language_in_a_cookie(seeded_cluster: dict[str, Any], operator: Client) -> None:
    response = operator.post("/language/", {"language": "zh-hans", "next": "/alerts/?state=resolved"})
    assert response.status_code == 302 and response["Location"] == "/alerts/?state=resolved"
    assert "告警" in operator.get("/alerts/").content.decode()
    assert operator.post("/language/", {"language": "en", "next": "https://example.org/"})["Location"] == "/"
    assert '<html lang="en"' in operator.get("/alerts/", **CHINESE).content.decode(), (
        "the choice is stronger than the browser"
    )


def test_the_log_in_page_and_the_error_pages_have_the_language(client: Client, db: None) -> None:
    assert "登录" in client.get("/login/", **CHINESE).content.decode()
    assert "页面不存在" in client.get("/no-such-page/", **CHINESE).content.decode()


def test_the_api_answers_in_english_and_its_reference_does_not(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    response = operator.get("/api/v1/topics/none", **CHINESE)
    assert response.status_code == 404 and response.content.isascii() and response["Content-Language"] == "en"
    rejected = operator.post(
        "/api/v1/topics", {"name": "a b", "surplus": 1}, content_type="application/json", **CHINESE
    )
    assert rejected.status_code == 400 and rejected.content.isascii()
    assert "请求体" in operator.get("/api/v1/docs/topics/", **CHINESE).content.decode()


def test_the_audit_log_stores_no_translated_text(seeded_cluster: dict[str, Any], operator: Client) -> None:
    newest = Change.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    operator.post("/brokers/2/cordon/", {"comment": "disk"}, **CHINESE)
    made = Change.objects.filter(pk__gt=newest)
    assert made and all(f"{c.verb} {c.object_kind} {c.object_name} {c.detail} {c.comment}".isascii() for c in made)


def test_the_texts_of_scripts_are_a_catalogue_of_the_language(client: Client, db: None) -> None:
    response = client.get("/texts/zh-hans.js")
    assert response.status_code == 200 and response["Content-Type"].startswith("text/javascript")
    assert "\\u5b9e\\u65f6\\u66f4\\u65b0\\u5df2\\u6682\\u505c" in response.content.decode(), "Live updates are paused."
    assert client.get("/texts/fr.js").status_code == 404
