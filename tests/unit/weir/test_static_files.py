"""Static files: hashed names, compression, caching; compression of pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import cramjam
import pytest
from django.contrib.staticfiles import finders
from django.http import HttpResponse, StreamingHttpResponse
from django.templatetags.static import static
from django.test import Client, RequestFactory

from weir.static_files import BUNDLES, FOREVER, Compression, brotli_page, bundle_sources, minify_css, static_file

CSS = "weir/weir.css"


@pytest.fixture(autouse=True)
def secret_key(settings: Any) -> None:
    settings.SECRET_KEY_GIVEN = True


def content(response: Any) -> bytes:
    return bytes(b"".join(response.streaming_content)) if response.streaming else bytes(response.content)


def test_a_name_has_the_hash_of_the_content_and_is_cached_for_a_year() -> None:
    address = static(CSS)
    assert re.fullmatch(r"/static/weir/weir\.[0-9a-f]{12}\.css", address)
    response = Client().get(address)
    found = static_file(CSS)
    assert found is not None
    assert (response.status_code, content(response)) == (200, found.content)
    assert response.headers["Cache-Control"] == FOREVER
    assert response.headers["Content-Type"].startswith("text/css")
    assert "Accept-Encoding" in response.headers["Vary"]


@pytest.mark.parametrize(
    ("accepted", "encoding"), [("gzip, deflate, br", "br"), ("gzip;q=1.0", "gzip"), ("identity", ""), ("", "")]
)
def test_the_best_accepted_encoding(accepted: str, encoding: str) -> None:
    response = Client().get(static(CSS), headers={"accept-encoding": accepted})
    found = static_file(CSS)
    assert found is not None
    assert response.headers.get("Content-Encoding", "") == encoding
    body = content(response)
    if encoding:
        body = bytes((cramjam.brotli if encoding == "br" else cramjam.gzip).decompress(body))
    assert body == found.content


def test_a_name_of_another_release_has_the_present_content_and_no_cache() -> None:
    response = Client().get("/static/weir/weir.000000000000.css")
    assert response.status_code == 200
    assert response.headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize(
    "path",
    ["/static/weir/nothing.000000000000.css", "/static/..%2Fweir/settings.000000000000.py", "/static/weir/weir.css"],
)
def test_other_names_are_not_answered_here(path: str) -> None:
    response = Client().get(path)
    assert response.headers.get("Cache-Control") != FOREVER
    assert response.status_code == (200 if path.endswith("weir.css") else 404)


OF_ONE_PAGE = {"name_filter.js", "needed_fields.js"}
"""Scripts that few pages load, so that the first page stays small."""


def test_the_console_has_every_script_and_no_comment() -> None:
    found = static_file("weir/console.js")
    folder = Path(finders.find("weir/keys.js") or "").parent
    assert found is not None
    bundled = {n.partition("/")[2] for name in ("weir/console.js", "weir/records.js") for n in BUNDLES[name]}
    assert {p.name for p in folder.glob("*.js")} == bundled | OF_ONE_PAGE
    assert b"\n//" not in found.content
    for path in folder.glob("*.js"):  # a text over several lines would lose its indentation
        assert [line for line in path.read_text().splitlines() if line.count("`") % 2] == []


def test_minifying_a_style_sheet_removes_only_comments_and_insignificant_spaces() -> None:
    css = b"""/* of a page */
    .a > .b,
    td:first-child { content: "a ; b"; margin: 0 auto; } /* why */
    @media (min-width: 9px) and (max-width: 20px) { .c { width: calc(1px + 2px); } }"""
    expected = (
        b'.a>.b,td:first-child{content:"a ; b";margin:0 auto}'
        b"@media (min-width:9px) and (max-width:20px){.c{width:calc(1px + 2px)}}"
    )
    assert minify_css(css).strip() == expected


def test_a_head_request_has_no_content() -> None:
    response = Client().head(static(CSS))
    assert (response.status_code, response.content) == (200, b"")


def test_every_static_file_of_a_page_is_hashed_and_pages_are_compressed(db: None) -> None:
    response = Client().get("/login/", headers={"accept-encoding": "gzip, br"})
    assert response.headers["Content-Encoding"] == "br"
    assert response.headers["Content-Length"] == str(len(response.content))
    assert "Accept-Encoding" in response.headers["Vary"]
    page = bytes(cramjam.brotli.decompress(response.content)).decode()
    addresses = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)
    assert addresses
    assert all(re.search(r"\.[0-9a-f]{12}\.\w+$", address) for address in addresses)


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("gzip, deflate, br", "br"), ("br;q=0, gzip", "gzip"), ("gzip", "gzip"), ("br;q=0.5", "br"), ("identity", None)],
)
def test_a_page_is_compressed_as_the_client_accepts_it(accepted: str, encoding: str | None) -> None:
    request = RequestFactory().get("/topics/", headers={"accept-encoding": accepted})
    response = Compression(lambda _: HttpResponse(b"orders " * 1000))(request)
    assert response.headers.get("Content-Encoding") == encoding
    short = Compression(lambda _: HttpResponse(b"x" * 199))(request)
    assert "Content-Encoding" not in short.headers
    stream = Compression(lambda _: StreamingHttpResponse([b"orders " * 1000]))(request)
    assert stream.headers.get("Content-Encoding") == (None if encoding is None or "gzip" not in accepted else "gzip")


@pytest.mark.parametrize("count", [0, 1, 2, 100, 256])
def test_random_bytes_change_the_length_of_a_page_and_not_its_content(count: int) -> None:
    page = b"<p>orders</p>" * 500
    compressed = brotli_page(page, bytes(range(256))[:count])
    assert bytes(cramjam.brotli.decompress(compressed)) == page
    assert len(compressed) == len(brotli_page(page, b"")) + (count + 2 if count else 0)


def test_the_length_of_a_page_is_random() -> None:
    request = RequestFactory().get("/topics/", headers={"accept-encoding": "br"})
    lengths = {len(Compression(lambda _: HttpResponse(b"orders " * 1000))(request).content) for _ in range(50)}
    assert len(lengths) > 5


def test_a_response_with_an_entity_tag_keeps_it_strong() -> None:
    tagged = HttpResponse(b"x" * 5000, headers={"ETag": '"7"'})
    request = RequestFactory().get("/api/v1/topics/orders", headers={"accept-encoding": "gzip"})
    response = Compression(lambda _: tagged)(request)
    assert response.headers["ETag"] == '"7"'
    assert "Content-Encoding" not in response.headers


def test_a_bundle_has_no_comments_and_keeps_texts_that_look_like_comments() -> None:
    source = b'// head\nconst A = 5; // seconds\n  f({ // opens\n    url: "http://x // y",\n  });\n/* block */\n\nconst b = "; // no comment";\n'
    assert bundle_sources([source]) == b'const A = 5;\nf({\nurl: "http://x // y",\n});\nconst b = "; // no comment";\n'


def test_a_file_is_compressed_when_it_is_asked_for_and_not_for_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    compressed: list[int] = []
    compress = cramjam.brotli.compress

    class CountingBrotli:
        @staticmethod
        def compress(content: bytes, level: int) -> object:
            compressed.append(len(content))
            return compress(content, level=level)

    monkeypatch.setattr("weir.static_files.cramjam.brotli", CountingBrotli)
    found = static_file("admin/js/vendor/jquery/jquery.js")
    assert found is not None and found.compressible
    address = static("admin/js/vendor/jquery/jquery.js")
    before = len(compressed)
    assert Client().get(address, headers={"accept-encoding": "br"}).headers["Content-Encoding"] == "br"
    assert Client().get(address, headers={"accept-encoding": "br"}).status_code == 200
    assert (before, compressed) == (0, [len(found.content)])
