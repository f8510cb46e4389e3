"""The file with the ZooKeeper session of a controller: who reads it, who may end the session in it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from brokerd.cluster.zookeeper import FormerSession, SessionKey
from controlplane.controller.former_session import SessionFile, end_former
from tests.cluster.local import ROOT

KEY = SessionKey(0x1000_0000_0001, bytes(range(16)))


def ended_by(file: SessionFile) -> list[SessionKey]:
    """The sessions that a process with this file ends at its start."""
    ended: list[SessionKey] = []

    def end(key: SessionKey) -> FormerSession:
        ended.append(key)
        return FormerSession.ENDED

    if (thread := end_former(file, end)) is not None:
        thread.join(10)
        assert not thread.is_alive()
    return ended


def test_the_next_process_ends_the_session_of_the_last_one(tmp_path: Path) -> None:
    path = tmp_path / "controller-1.session"
    first = SessionFile(path)
    assert ended_by(first) == []
    first.write(SessionKey(7, bytes(16)))
    first.write(KEY)
    first.close()
    assert ended_by(SessionFile(path)) == [KEY]


def test_the_session_of_a_process_that_runs_is_not_ended(tmp_path: Path) -> None:
    path = tmp_path / "controller-1.session"
    running = SessionFile(path)
    running.write(KEY)
    second = SessionFile(path)
    assert ended_by(second) == []
    second.write(SessionKey(8, bytes(16)))
    assert running.read() == KEY, "the second process must not replace the session of the first"
    running.close()
    assert ended_by(SessionFile(path)) == [KEY]


def test_the_lock_ends_with_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "controller-1.session"
    script = (
        "import sys, time; from pathlib import Path; from brokerd.cluster.zookeeper import SessionKey\n"
        "from controlplane.controller.former_session import SessionFile\n"
        "file = SessionFile(Path(sys.argv[1])); file.write(SessionKey(9, bytes(16)))\n"
        "print('written', flush=True); time.sleep(600)"
    )
    words = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert ended_by(SessionFile(path)) == []
        process.kill()
    assert ended_by(SessionFile(path)) == [SessionKey(9, bytes(16))]


def test_the_password_is_readable_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "controller-1.session"
    SessionFile(path).write(KEY)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert KEY.password.hex() in path.read_text() and KEY.password.hex() not in repr(KEY)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"zk_session": 1}', '{"zk_session": "x", "password": "00"}'])
def test_an_interrupted_write_is_no_session(tmp_path: Path, text: str) -> None:
    path = tmp_path / "controller-1.session"
    path.write_text(text)
    file = SessionFile(path)
    assert file.read() is None and ended_by(file) == []
    file.write(KEY)
    assert file.read() == KEY


def test_a_shorter_session_replaces_a_longer_one_completely(tmp_path: Path) -> None:
    file = SessionFile(tmp_path / "controller-1.session")
    file.write(KEY)
    file.write(SessionKey(1, b""))
    assert file.read() == SessionKey(1, b"")


def test_a_folder_that_does_not_exist_is_no_reason_not_to_start(tmp_path: Path) -> None:
    file = SessionFile(tmp_path / "absent" / "controller-1.session")
    file.write(KEY)
    assert file.read() is None and ended_by(file) == []
    file.close()


def test_the_file_is_not_inherited_by_child_processes(tmp_path: Path) -> None:
    """A child with the open file would keep the lock after the end of the controller."""
    file = SessionFile(tmp_path / "controller-1.session")
    assert file._fd is not None and not os.get_inheritable(file._fd)
