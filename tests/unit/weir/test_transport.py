"""The task queue in a directory: no reader sees an incomplete message, and a file that a crash left incomplete does not end the worker."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection

from weir import transport


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("queue", "control"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def channel(folder: Path) -> Iterator[Any]:
    queue, control = str(folder / "queue"), str(folder / "control")
    options = {"data_folder_in": queue, "data_folder_out": queue, "control_folder": control}
    with Connection(transport.URL, transport_options=options) as connection:
        yield connection.channel()


def test_messages_are_delivered_once_in_order(channel: Any) -> None:
    channel._put("weir", {"n": 1})
    channel._put("other", {"n": 2})
    assert channel._size("weir") == 1
    assert channel._get("weir") == {"n": 1}
    with pytest.raises(Empty):
        channel._get("weir")


def test_an_incomplete_message_is_not_delivered(channel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    whole = Path.write_text

    def write_in_parts(path: Path, text: str) -> int:
        for part in ("", text[: len(text) // 2], text):
            whole(path, part)
            try:
                seen.append(channel._get("weir"))
            except Empty:
                seen.append(None)
        return len(text)

    monkeypatch.setattr(Path, "write_text", write_in_parts)
    channel._put("weir", {"n": 1})
    assert seen == [None, None, None]
    assert channel._get("weir") == {"n": 1}


def test_a_process_that_dies_during_a_write_leaves_no_message(channel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_interrupt(*paths: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            channel._put("weir", {"n": 1})
    with pytest.raises(Empty):
        channel._get("weir")


@pytest.mark.parametrize("torn", ["", '{"n": '])
def test_an_unreadable_message_is_deleted_and_the_next_is_delivered(channel: Any, folder: Path, torn: str) -> None:
    (folder / "queue" / "0_torn.weir.msg").write_text(torn)
    channel._put("weir", {"n": 1})
    assert channel._get("weir") == {"n": 1}
    assert list((folder / "queue").iterdir()) == []


def test_a_torn_queue_list_is_recreated(channel: Any, folder: Path) -> None:
    (folder / "control" / "weir.exchange").write_text("")
    channel._queue_bind("weir", "weir", None, "weir")
    assert [q.queue for q in channel.get_table("weir")] == ["weir"]


def test_with_a_concurrent_reader_each_message_is_delivered_once(channel: Any) -> None:
    count = 1_000
    writer = threading.Thread(target=lambda: [channel._put("weir", {"n": n}) for n in range(count)])
    writer.start()
    got: list[int] = []
    while len(got) < count:
        alive = writer.is_alive()
        try:
            got.append(channel._get("weir")["n"])
        except Empty:
            assert alive or len(got) == count, f"{len(got)} of {count}"
    writer.join()
    assert sorted(got) == list(range(count))
