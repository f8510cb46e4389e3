"""Static files under names with the hash of their content, compressed with brotli or gzip, and cached by browsers for a year. Compression of pages.

Invariants: a hashed name always has the same content, so a browser never requests it again, and a new release has new names. A name with another
hash (a page of the release before) is answered with the current content without a cache. Files are read from the source directories: no
`collectstatic` is needed. Does not contain: names without a hash (WhiteNoise, as configured in `weir.settings`).
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from http import HTTPStatus
from pathlib import Path, PurePosixPath

import cramjam
from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.core.exceptions import SuspiciousFileOperation
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.cache import patch_vary_headers

HASH_CHARS = 12
HASHED = re.compile(rf"(?P<stem>.+)\.(?P<hash>[0-9a-f]{{{HASH_CHARS}}})(?P<suffix>\.[a-z0-9]+)")
NOT_ACCEPTED = ("q=0", "q=0.0", "q=0.00", "q=0.000")
FOREVER = "public, max-age=31536000, immutable"
BROTLI_LEVEL, GZIP_LEVEL = 11, 9
"""The highest levels: a file is compressed once per process."""
PAGE_BROTLI_LEVEL = 6
"""A page is compressed at each request. Level 6 takes about the time of Django's gzip and makes pages about a tenth smaller than it; the next levels win less
than 1 %."""
PAGE_BYTES_MIN = 200
"""Smaller responses are not compressed, as in Django."""
METADATA = 0x16
"""First bits of a brotli block that decoders skip, whose length less one follows in 8 bits (RFC 7932, section 9.2)."""
COMPRESSED_BYTES_MIN = 512
"""Smaller files are not compressed: the header costs as much as it saves."""
FILES_MAX = 1000
"""Maximum number of static files that a process keeps in memory, several times the number that exists."""
BUNDLES = {
    "weir/console.js": tuple(
        f"weir/{name}.js"
        for name in (
            "texts",
            "charts",
            "socket",
            "cells",
            "panels",
            "staleness",
            "keys",
            "forms",
            "palette",
        )
    ),
    "vendor/vendor.js": ("vendor/htmx/htmx.min.js", "vendor/uplot/uPlot.iife.min.js"),
    "weir/records.js": ("weir/messages.js", "weir/tail.js"),
    "weir/bare.css": ("weir/bare.css",),
    "weir/console.css": ("weir/weir.css", "vendor/uplot/uPlot.min.css"),
}
"""Files that are several source files in this order, without comments: one request, and better compression. `records.js` is loaded by the pages that
list records, `bare.css` by those without navigation, the others by every page. The libraries are a file of their own, which few releases change."""
UNUSED_RULE = re.compile(rb"(?:\.[^{}]*)?\.u-(?:legend|inline|series|title)\b[^{}]*\{[^{}]*\}")
"""Rules of uPlot for its legend and title, which no chart has."""
COMMENT_LINE = re.compile(rb"^//.*$|^/\*.*\*/$", re.MULTILINE)
COMMENT_AFTER_CODE = re.compile(rb"(?<=[;{},(]) // [^\"'`]*$")
CSS_COMMENT = re.compile(rb"/\*.*?\*/", re.DOTALL)
CSS_TEXT = re.compile(rb'("[^"]*")')


@dataclass(frozen=True)  # without slots, which `cached_property` does not permit
class StaticFile:
    """The content of one file."""

    content: bytes
    hash: str
    media_type: str
    compressible: bool

    @cached_property
    def encodings(self) -> dict[str, bytes]:
        """The compressed content by the name in Accept-Encoding, the best first. Made at the first request for the file: WhiteNoise requests the
        address of every file at the start of a process, also of those of Django's admin, and the content of most is never requested."""
        if not self.compressible:
            return {}
        return {
            "br": bytes(cramjam.brotli.compress(self.content, level=BROTLI_LEVEL)),
            "gzip": bytes(cramjam.gzip.compress(self.content, level=GZIP_LEVEL)),
        }


def bundle_sources(sources: Iterable[bytes]) -> bytes:
    """The lines of all sources, without indentation, empty lines and comments that are whole lines or the end of a line. Needs text literals that end on
    their line."""
    lines = (COMMENT_AFTER_CODE.sub(b"", line.strip()) for source in sources for line in source.splitlines())
    return b"\n".join(line for line in lines if line and not COMMENT_LINE.match(line)) + b"\n"


def minify_css(css: bytes) -> bytes:
    """Remove comments and insignificant spaces from a style sheet. Text literals must be in double quotes."""
    parts = CSS_TEXT.split(CSS_COMMENT.sub(b"", css))
    for n in range(0, len(parts), 2):
        one_space = re.sub(rb"\s+", b" ", parts[n])
        parts[n] = re.sub(rb" ?([{};,>]) ?", rb"\1", one_space).replace(b": ", b":").replace(b";}", b"}")
    return b"".join(parts)


def _find(name: str) -> Path | None:
    """The file of a static name; None: there is none. The finders reject paths outside of their directories."""
    try:
        found = finders.find(name)
    except SuspiciousFileOperation:
        return None
    return Path(found) if isinstance(found, str) and Path(found).is_file() else None


@lru_cache(maxsize=FILES_MAX)
def _read_file(paths: tuple[Path, ...], changed_ns: tuple[int, ...], *, bundle: bool) -> StaticFile:
    """`changed_ns`: the times of the last changes, so that changed files are read again."""
    path, sources = paths[0], [p.read_bytes() for p in paths]
    content = bundle_sources(sources) if bundle else sources[0]
    if bundle and path.suffix == ".css":
        content = UNUSED_RULE.sub(b"", minify_css(content))
    compressible = len(content) >= COMPRESSED_BYTES_MIN and path.suffix in (".css", ".js", ".svg", ".txt")
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return StaticFile(content, hashlib.sha256(content).hexdigest()[:HASH_CHARS], media_type, compressible)


def static_file(name: str) -> StaticFile | None:
    """The file of a name without a hash; None: there is none."""
    paths = tuple(path for source in BUNDLES.get(name, (name,)) if (path := _find(source)) is not None)
    return _read_file(paths, tuple(p.stat().st_mtime_ns for p in paths), bundle=name in BUNDLES) if paths else None


class HashedStorage(StaticFilesStorage):
    """Addresses of static files, with the hash of the content in the name."""

    def url(self, name: str | None) -> str:
        found = static_file(name) if name else None
        if name is None or found is None:
            return super().url(name)
        path = PurePosixPath(name)
        return super().url(str(path.with_suffix(f".{found.hash}{path.suffix}")))


class HashedFiles:
    """Middleware: answers requests for hashed names. All other requests are passed to the next middleware."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response
        self._prefix = f"/{str(settings.STATIC_URL).strip('/')}/"

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.method not in ("GET", "HEAD") or not request.path_info.startswith(self._prefix):
            return self._get_response(request)
        named = HASHED.fullmatch(request.path_info[len(self._prefix) :])
        found = static_file(named["stem"] + named["suffix"]) if named else None
        if named is None or found is None:
            return self._get_response(request)
        return _response(request, found, current=named["hash"] == found.hash)


def _response(request: HttpRequest, file: StaticFile, *, current: bool) -> HttpResponse:
    accepted = _accepted_encodings(request)
    encoding = next((name for name in file.encodings if name in accepted), "")
    response = HttpResponse(
        b"" if request.method == "HEAD" else file.encodings.get(encoding, file.content),
        status=HTTPStatus.OK,
        content_type=file.media_type,
    )
    response.headers["Cache-Control"] = FOREVER if current else "no-cache"
    if encoding:
        response.headers["Content-Encoding"] = encoding
    patch_vary_headers(response, ("Accept-Encoding",))
    return response


def _accepted_encodings(request: HttpRequest) -> set[str]:
    """The names in Accept-Encoding, without those that the client does not accept."""
    parts = (part.replace(" ", "").partition(";") for part in request.headers.get("Accept-Encoding", "").split(","))
    return {name for name, _, weight in parts if weight not in NOT_ACCEPTED}


def brotli_page(content: bytes, random: bytes) -> bytes:
    """The compressed content, with these random bytes in a block that decoders skip: an attacker must not learn the compressed length (BREACH). At most 256."""
    compressor = cramjam.brotli.Compressor(PAGE_BROTLI_LEVEL)
    compressor.compress(content)
    blocks = bytes(compressor.flush())  # ends at a whole byte, so another block may follow
    skipped = (METADATA | (len(random) - 1) << 6).to_bytes(2, "little") + random if random else b""
    return blocks + skipped + bytes(compressor.finish())


class Compression(GZipMiddleware):
    """Compresses pages and responses of the API with brotli or, for other clients and for streams, gzip. Random bytes are added against BREACH, and Django masks
    its CSRF tokens.

    A response with an entity tag does not change: compression would make the tag weak, and `If-Match` compares strong tags only.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.has_header("ETag"):
            return response
        if not isinstance(response, HttpResponse) or response.has_header("Content-Encoding"):
            return super().process_response(request, response)
        if "br" not in _accepted_encodings(request) or len(response.content) < PAGE_BYTES_MIN:
            return super().process_response(request, response)
        patch_vary_headers(response, ("Accept-Encoding",))
        compressed = brotli_page(response.content, secrets.token_bytes(secrets.randbelow(self.max_random_bytes + 1)))
        if len(compressed) < len(response.content):
            response.content = compressed
            response.headers["Content-Encoding"] = "br"
            response.headers["Content-Length"] = str(len(compressed))
        return response
