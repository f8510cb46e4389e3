"""Connectors of a Connect cluster: list, one connector, plugins, validation, and their changes.

Invariants: each function sends one request of the cluster's client, with its limits of time and bytes. A body of an unknown form is ConnectUnavailable.
Does not contain: pages of connectors (`controlplane.selectors.connect`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypedDict, TypeVar
from urllib.parse import quote

from controlplane.clients.connect import ConnectClient, ConnectUnavailable
from controlplane.domain.connect import ConfigType, ConnectorState, ConnectorType, state_of, type_of
from weir_common.phrases import sentence

T = TypeVar("T")


class StateJson(TypedDict):
    """The state of a connector or of one of its tasks. `trace`: of a failed one, else ""."""

    state: str | None
    worker_id: str
    trace: str


class TaskStateJson(StateJson):
    id: int


class ConnectorStatusJson(TypedDict):
    """The parts of the response to GET /connectors/NAME/status that are read."""

    type: str | None
    connector: StateJson
    tasks: list[TaskStateJson]


class ConnectorInfoJson(TypedDict):
    """The parts of the response to GET /connectors/NAME that are read. `config`: without the configs that are null."""

    name: str
    type: str | None
    config: dict[str, str]


@dataclass(frozen=True, slots=True)
class ConnectWorkerInfo:
    """`kafka_cluster_id`: of the cluster that has the topics of the connectors."""

    version: str
    kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """`worker`: its ID, host and port. `trace`: of a failed task, else ""."""

    id: int
    state: ConnectorState
    worker: str
    trace: str


@dataclass(frozen=True, slots=True)
class Connector:
    """`config` has secrets in clear text. `trace`: of a failed connector, else ""."""

    name: str
    type: ConnectorType
    state: ConnectorState
    worker: str
    trace: str
    config: dict[str, str]
    tasks: list[TaskStatus]


@dataclass(frozen=True, slots=True)
class ConnectPlugin:
    """A class of connectors that the workers have."""

    class_name: str
    type: ConnectorType
    version: str


@dataclass(frozen=True, slots=True)
class ConfigDefinition:
    """A config of a connector, as its plugin defines it. `default` null: none. `importance`: HIGH, MEDIUM or LOW."""

    name: str
    type: str
    is_required: bool
    default: str | None
    importance: str
    documentation: str
    group: str


@dataclass(frozen=True, slots=True)
class ValidatedConfig(ConfigDefinition):
    """`value`, `errors`: from a validation, with secrets in clear text. `recommended`: allowed or suggested values."""

    value: str | None
    recommended: list[str]
    errors: list[str]
    is_visible: bool


def worker_info(client: ConnectClient) -> ConnectWorkerInfo:
    """Raises ConnectUnavailable, as all functions here."""
    found = client.request("GET", "/", sentence("version"))

    def read() -> ConnectWorkerInfo:
        worker = _object(found)
        return ConnectWorkerInfo(str(worker["version"]), str(worker["kafka_cluster_id"]))

    return _call(client, sentence("version"), read)


def connectors(client: ConnectClient) -> list[Connector]:
    found = client.request("GET", "/connectors?expand=status&expand=info", sentence("list of connectors"))

    def read() -> list[Connector]:
        listed = {name: _object(c) for name, c in _object(found).items()}
        return [_connector(name, _info(c["info"]), _status(c.get("status") or {})) for name, c in listed.items()]

    return _call(client, sentence("list of connectors"), read)


def connector_config(client: ConnectClient, name: str) -> dict[str, str]:
    """Return the config of the connector, with secrets in clear text."""
    what = connector_text(name)
    found = client.request("GET", f"{_path(name)}/config", what)
    return _call(client, what, lambda: _texts(_object(found)))


def connector_info(client: ConnectClient, name: str) -> ConnectorInfoJson:
    found = client.request("GET", _path(name), connector_text(name))
    return _call(client, connector_text(name), lambda: _info(found))


def connector_status(client: ConnectClient, name: str) -> ConnectorStatusJson:
    found = client.request("GET", f"{_path(name)}/status", sentence("status of connector {name}", name=name))
    return _call(client, sentence("status of connector {name}", name=name), lambda: _status(found))


def connector_of(info: ConnectorInfoJson, status: ConnectorStatusJson | None) -> Connector:
    return _connector(info["name"], info, status)


def active_topics(client: ConnectClient, name: str) -> list[str]:
    """Topics that the connector used since its creation or since they were reset."""
    what = sentence("topics of connector {name}", name=name)
    found = client.request("GET", f"{_path(name)}/topics", what)
    return _call(client, what, lambda: sorted(str(t) for t in _list(_object(_object(found)[name])["topics"])))


def offsets(client: ConnectClient, name: str) -> list[tuple[str, str]]:
    """(partition, offset) as JSON texts (KIP-875). Of a sink they are offsets of a consumer group."""
    what = sentence("offsets of connector {name}", name=name)
    found = client.request("GET", f"{_path(name)}/offsets", what)
    return _call(
        client, what, lambda: [(_json(o["partition"]), _json(o["offset"])) for o in _objects(_object(found)["offsets"])]
    )


def plugins(client: ConnectClient) -> list[ConnectPlugin]:
    found = client.request("GET", "/connector-plugins", sentence("list of plugins"))

    def read() -> list[ConnectPlugin]:
        listed = _objects(found)
        known = [ConnectPlugin(str(p["class"]), type_of(p.get("type")), str(p.get("version") or "")) for p in listed]
        return sorted((p for p in known if p.type is not ConnectorType.UNKNOWN), key=lambda p: p.class_name)

    return _call(client, sentence("list of plugins"), read)


def secret_configs(client: ConnectClient, class_name: str) -> frozenset[str]:
    """Configs of the type PASSWORD of a plugin (KIP-769). Read once per class."""
    if class_name not in client.secret_configs:
        what = sentence("configs of plugin {name}", name=class_name)
        found = client.request("GET", f"/connector-plugins/{quote(class_name, safe='')}/config", what)
        names = _call(
            client,
            what,
            lambda: frozenset(str(c["name"]) for c in _objects(found) if c.get("type") == ConfigType.PASSWORD),
        )
        client.secret_configs[class_name] = names
    return client.secret_configs[class_name]


def validate(client: ConnectClient, config: Mapping[str, str]) -> list[ValidatedConfig]:
    """Validate `config`. Returns all configs of the connector's class and of its transforms, with the errors of each. Changes nothing."""
    class_name = config.get("connector.class", "")
    what = sentence("plugin {name}", name=class_name)
    path = f"/connector-plugins/{quote(class_name, safe='')}/config/validate"
    found = client.request("PUT", path, what, dict(config))
    return _call(client, what, lambda: [_definition(c) for c in _objects(_object(found)["configs"])])


def create(client: ConnectClient, name: str, config: Mapping[str, str]) -> None:
    client.request("POST", "/connectors", connector_text(name), {"name": name, "config": dict(config)})


def change_config(client: ConnectClient, name: str, config: Mapping[str, str]) -> None:
    """Replaces the whole config. The worker restarts the tasks."""
    client.request("PUT", f"{_path(name)}/config", connector_text(name), dict(config))


def pause(client: ConnectClient, name: str) -> None:
    client.request("PUT", f"{_path(name)}/pause", connector_text(name))


def resume(client: ConnectClient, name: str) -> None:
    client.request("PUT", f"{_path(name)}/resume", connector_text(name))


def stop(client: ConnectClient, name: str) -> None:
    """Tasks end and free their resources, the config stays (KIP-875)."""
    client.request("PUT", f"{_path(name)}/stop", connector_text(name))


def restart(client: ConnectClient, name: str, *, include_tasks: bool, only_failed: bool) -> None:
    query = f"includeTasks={str(include_tasks).lower()}&onlyFailed={str(only_failed).lower()}"
    client.request("POST", f"{_path(name)}/restart?{query}", connector_text(name))


def restart_task(client: ConnectClient, name: str, task: int) -> None:
    client.request(
        "POST", f"{_path(name)}/tasks/{task}/restart", sentence("task {task} of connector {name}", task=task, name=name)
    )


def delete(client: ConnectClient, name: str) -> None:
    client.request("DELETE", _path(name), connector_text(name))


def connector_text(name: str) -> str:
    """The connector, in errors."""
    return sentence("connector {name}", name=name)


def _path(name: str) -> str:
    """The path of a connector, whose name may have any character but control characters."""
    return f"/connectors/{quote(name, safe='')}"


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"an object is expected, not {type(value).__name__}")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"a list is expected, not {type(value).__name__}")
    return value


def _objects(value: object) -> list[dict[str, object]]:
    return [_object(v) for v in _list(value)]


def _optional(value: object) -> str | None:
    return None if value is None else str(value)


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"a number is expected, not {type(value).__name__}")
    return value


def _info(value: object) -> ConnectorInfoJson:
    info = _object(value)
    return {
        "name": str(info.get("name") or ""),
        "type": _optional(info.get("type")),
        "config": _texts(_object(info.get("config") or {})),
    }


def _status(value: object) -> ConnectorStatusJson:
    status = _object(value)
    return {
        "type": _optional(status.get("type")),
        "connector": _state(_object(status.get("connector") or {})),
        "tasks": [{"id": _number(t["id"]), **_state(t)} for t in _objects(status.get("tasks") or [])],
    }


def _state(status: Mapping[str, object]) -> StateJson:
    return {
        "state": _optional(status.get("state")),
        "worker_id": str(status.get("worker_id") or ""),
        "trace": str(status.get("trace") or ""),
    }


def _connector(name: str, info: ConnectorInfoJson, status: ConnectorStatusJson | None) -> Connector:
    reported = _status({}) if status is None else status
    own = reported["connector"]
    tasks = [TaskStatus(t["id"], state_of(t["state"]), t["worker_id"], t["trace"]) for t in reported["tasks"]]
    return Connector(
        name=name,
        type=type_of(reported["type"] or info["type"]),
        state=state_of(own["state"]),
        worker=own["worker_id"],
        trace=own["trace"],
        config=info["config"],
        tasks=sorted(tasks, key=lambda t: t.id),
    )


def _definition(described: Mapping[str, object]) -> ValidatedConfig:
    definition, value = _object(described["definition"]), _object(described["value"])
    default = definition.get("default_value")
    return ValidatedConfig(
        name=str(definition["name"]),
        type=str(definition.get("type") or "STRING"),
        is_required=bool(definition.get("required")),
        default=None if default is None else str(default),
        importance=str(definition.get("importance") or "LOW"),
        documentation=str(definition.get("documentation") or ""),
        group=str(definition.get("group") or ""),
        value=None if value.get("value") is None else str(value["value"]),
        recommended=[str(v) for v in _list(value.get("recommended_values") or [])],
        errors=[str(e) for e in _list(value.get("errors") or [])],
        is_visible=bool(value.get("visible", True)),
    )


def _texts(config: Mapping[str, object]) -> dict[str, str]:
    """Configs as text: a null is omitted."""
    return {str(name): str(value) for name, value in config.items() if value is not None}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _call(client: ConnectClient, what: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ConnectUnavailable(
            sentence(
                "Connect cluster {cluster} answered in an unknown form for {what}.", cluster=client.name, what=what
            )
        ) from None
