"""The command line and the settings of the local ZooKeeper, and when it is ready."""

from __future__ import annotations

import socket
import stat
import threading
from pathlib import Path

import pytest

from controlplane.devcluster import zookeeper
from controlplane.devcluster.zookeeper import ZooKeeperSecurity

SECURITY = ZooKeeperSecurity(Path("/zk.pem"), Path("/ca.pem"), "weir", "secret")


def test_an_open_server_listens_on_loopback(tmp_path: Path) -> None:
    command = zookeeper.prepare(tmp_path, 2181)
    settings = (tmp_path / "zoo.cfg").read_text()
    assert "clientPort=2181\nclientPortAddress=127.0.0.1\n" in settings and f"dataDir={tmp_path / 'data'}" in settings
    assert command[-1] == str(tmp_path / "zoo.cfg") and zookeeper.HEAP in command
    assert "zookeeper-3" in command[command.index("-cp") + 1]


def test_a_secured_server_has_no_open_port_and_no_password_in_its_command_line(tmp_path: Path) -> None:
    command = zookeeper.prepare(tmp_path, 2181, SECURITY)
    settings = (tmp_path / "zoo.cfg").read_text()
    assert "secureClientPort=2181" in settings and "\nclientPort=" not in settings
    jaas = tmp_path / "jaas.conf"
    assert 'user_weir="secret"' in jaas.read_text() and stat.S_IMODE(jaas.stat().st_mode) == 0o600
    assert "secret" not in " ".join(command) + settings + repr(SECURITY)


@pytest.mark.parametrize(("response", "ready"), [(b"Mode: standalone\n", True), (b"not currently serving\n", False)])
def test_a_server_is_ready_when_it_reports_a_mode(response: bytes, ready: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(4) == b"srvr"
                connection.sendall(response)

        thread = threading.Thread(target=serve)
        thread.start()
        port = server.getsockname()[1]
        assert zookeeper.ready(port) is ready
        thread.join()
    assert not zookeeper.ready(port), "nobody listens any more"
