"""The command `zookeeper_server`: the process becomes a JVM with the settings that it was given."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management.base import CommandError

from controlplane.devcluster import zookeeper
from controlplane.management.commands import zookeeper_server as command
from tests.unit.controlplane.management.commands.local_cluster import run
from weir_common.java import JavaMissing


@pytest.fixture
def executed_commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    found: list[list[str]] = []
    monkeypatch.setattr(command.os, "execv", lambda program, arguments: found.append([program, *arguments[1:]]))
    return found


def test_the_server_gets_its_settings_its_heap_and_its_users(
    tmp_path: Path, executed_commands: list[list[str]]
) -> None:
    settings = tmp_path / "zoo.cfg"
    settings.write_text("")
    run("zookeeper_server", "--config", str(settings), "--heap", "1g", "--jaas", "/etc/weir/jaas.conf")
    (line,) = executed_commands
    assert line[-2:] == [zookeeper.MAIN_CLASS, str(settings)] and "-Xmx1g" in line
    assert f"-Dlog4j2.configurationFile={tmp_path / 'log4j2.properties'}" in line
    assert "-Djava.security.auth.login.config=/etc/weir/jaas.conf" in line and "-XX:+ExitOnOutOfMemoryError" in line


def test_missing_settings_and_a_missing_java_are_reported(
    tmp_path: Path, executed_commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CommandError, match=r"must name zoo\.cfg"):
        run("zookeeper_server", "--config", str(tmp_path / "zoo.cfg"))
    (tmp_path / "zoo.cfg").write_text("")

    def raise_java_missing(*arguments: object, **options: object) -> list[str]:
        raise JavaMissing("Java 17 or later was not found")

    monkeypatch.setattr(command, "server_command", raise_java_missing)
    with pytest.raises(CommandError, match="Java 17 or later"):
        run("zookeeper_server", "--config", str(tmp_path / "zoo.cfg"))
    assert executed_commands == []


def test_the_users_beside_the_settings_are_used(tmp_path: Path, executed_commands: list[list[str]]) -> None:
    settings, users = tmp_path / "zoo.cfg", tmp_path / "jaas.conf"
    settings.write_text("")
    run("zookeeper_server", "--config", str(settings))
    users.write_text("")
    run("zookeeper_server", "--config", str(settings))
    without, with_users = executed_commands
    assert not [word for word in without if "login.config" in word or "fips" in word]
    assert f"-Djava.security.auth.login.config={users}" in with_users and "-Dzookeeper.fips-mode=false" in with_users
