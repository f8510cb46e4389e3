"""The pages of the API reference."""

from __future__ import annotations

import json
import re

from django.conf import settings
from django.test import Client

from controlplane.api.reference import api_reference


def test_the_index_links_every_operation(viewer: Client) -> None:
    text = viewer.get("/api/v1/docs/").content.decode()
    links = set(re.findall(r'href="(/api/v1/docs/[\w-]+/)#operation-[\w-]+"', text))
    assert links == {f"/api/v1/docs/{page.noun}/" for page in api_reference()}
    assert text.count("#operation-") == sum(len(page.operations) for page in api_reference())
    assert 'href="/api/v1/docs/"' in viewer.get("/").content.decode(), "the menu has a link to it"


def test_each_page_holds_the_policy_and_has_no_broken_link(viewer: Client) -> None:
    for page in api_reference():
        response = viewer.get(f"/api/v1/docs/{page.noun}/")
        text = response.content.decode()
        assert response.status_code == 200, page.noun
        assert "script-src 'self'" in response.headers["Content-Security-Policy"]
        assert not re.search(r"<script(?![^>]*\bsrc=)", text) and not re.search(r"\sstyle=|\son[a-z]+=", text)
        anchors = set(re.findall(r'\sid="([^"]+)"', text))
        missing = {a for a in re.findall(r'href="#([^"]+)"', text) if a not in anchors}
        assert not missing, (page.noun, missing)
        for operation in page.operations:
            assert f"operation-{operation.id}" in anchors


def test_an_unknown_noun_and_an_anonymous_reader(viewer: Client, client: Client) -> None:
    assert viewer.get("/api/v1/docs/nothing/").status_code == 404
    response = client.get("/api/v1/docs/")
    assert response.status_code == 302 and response.headers["Location"].startswith("/login/")


def test_the_reference_has_the_language_of_the_user_and_the_schema_is_english(viewer: Client) -> None:
    english, chinese = "Delete the topic with its records.", "删除 Topic 及其消息。"
    assert english in (text := viewer.get("/api/v1/docs/").content.decode()) and chinese not in text
    viewer.cookies[settings.LANGUAGE_COOKIE_NAME] = "zh-hans"
    for address in ("/api/v1/docs/", "/api/v1/docs/topics/"):
        text = viewer.get(address).content.decode()
        assert chinese in text and english not in text, address
    schema = json.loads(viewer.get("/api/v1/schema", HTTP_ACCEPT="application/vnd.oai.openapi+json").content)
    assert schema["paths"]["/api/v1/topics/{name}"]["delete"]["description"] == english


def test_the_reference_has_the_language_of_the_browser(viewer: Client) -> None:
    text = viewer.get("/api/v1/docs/topics/", HTTP_ACCEPT_LANGUAGE="zh-CN").content.decode()
    assert "string 的列表" in text and "列出符合筛选条件的 Topic。" in text
