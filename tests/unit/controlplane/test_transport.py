"""Tasks in a folder: nobody sees half a message, and what a death has torn does not end the worker that finds it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection

from controlplane.site import celery, transport


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


def test_the_house_uses_it() -> None:
    with celery.app.connection_for_write() as connection:
        assert isinstance(connection.transport, transport.Transport)


def test_a_message_comes_once_and_in_order(channel: Any) -> None:
    channel._put("weir", {"n": 1})
    channel._put("other", {"n": 2})
    assert channel._size("weir") == 1
    assert channel._get("weir") == {"n": 1}
    with pytest.raises(Empty):
        channel._get("weir")


def test_while_a_message_is_being_written_nobody_has_it(channel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    whole = Path.write_text

    def slowly(path: Path, text: str) -> int:
        for part in ("", text[: len(text) // 2], text):
            whole(path, part)
            try:
                seen.append(channel._get("weir"))
            except Empty:
                seen.append(None)
        return len(text)

    monkeypatch.setattr(Path, "write_text", slowly)
    channel._put("weir", {"n": 1})
    assert seen == [None, None, None]
    assert channel._get("weir") == {"n": 1}


def test_who_dies_while_writing_leaves_nothing_to_stumble_over(channel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*paths: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", dies)
        with pytest.raises(KeyboardInterrupt):
            channel._put("weir", {"n": 1})
    with pytest.raises(Empty):
        channel._get("weir")


@pytest.mark.parametrize("torn", ["", '{"n": '])
def test_what_cannot_be_read_is_thrown_away_and_the_next_one_comes(channel: Any, folder: Path, torn: str) -> None:
    (folder / "queue" / "0_torn.weir.msg").write_text(torn)
    channel._put("weir", {"n": 1})
    assert channel._get("weir") == {"n": 1}
    assert list((folder / "queue").iterdir()) == []


def test_a_torn_list_of_queues_is_made_anew(channel: Any, folder: Path) -> None:
    (folder / "control" / "weir.exchange").write_text("")
    channel._queue_bind("weir", "weir", None, "weir")
    assert [q.queue for q in channel.get_table("weir")] == ["weir"]


def test_beside_a_reader_that_never_rests_every_message_comes_once(channel: Any) -> None:
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
