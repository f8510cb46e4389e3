"""Messages to the service manager, received on a socket of this file."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from weir_common.service_manager import HEARTBEAT_VARIABLE, SOCKET_VARIABLE, notify_watchdog


@pytest.mark.parametrize("abstract", [False, True])
def test_the_message_arrives_at_the_address_of_the_environment(
    abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as received:
        received.bind("\0" + path if abstract else path)
        monkeypatch.setenv(SOCKET_VARIABLE, "@" + path if abstract else path)
        assert notify_watchdog()
        assert received.recv(100) == b"WATCHDOG=1"


@pytest.mark.parametrize("address", ["", "vsock:2:1", "/no/such/socket"])
def test_without_a_service_manager_a_notification_has_no_effect(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SOCKET_VARIABLE, address)
    assert not notify_watchdog()


def test_a_full_socket_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as received:
        received.bind(path)
        monkeypatch.setenv(SOCKET_VARIABLE, path)
        while notify_watchdog():
            pass


def test_the_time_of_the_file_is_that_of_the_last_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SOCKET_VARIABLE, raising=False)
    path = tmp_path / "heartbeat"
    monkeypatch.setenv(HEARTBEAT_VARIABLE, str(path))
    notify_watchdog()
    os.utime(path, (1, 1))
    notify_watchdog()
    assert path.stat().st_mtime > 1


def test_an_unwritable_heartbeat_file_is_logged_and_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(HEARTBEAT_VARIABLE, str(tmp_path / "missing" / "heartbeat"))
    notify_watchdog()
    assert "heartbeat not written" in caplog.text
