"""The files of each machine of a production cluster, from the inventory and the templates in `deploy/`.

Invariants: the same inventory gives the same bytes. A file with passwords has the mode 0640. The settings of each broker and of the control plane are
accepted by the parsers that the processes use. Does not contain: reading and writing (`command`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from brokerd.cluster.configs import BROKER_SYNONYMS
from brokerd.config.broker import BrokerConfig, ConfigError
from weir.deployment import security
from weir.deployment.inventory import CONTROL_PLANE, InvalidInventory, Inventory, Machine, MachineRole
from weir.variables import INTERNAL, read, variables

ZOOKEEPER_PORT, BROKER_PORT = 2181, 9092
CONTROL_DIR = "/var/lib/weir/control"
PLAIN, SECRET = 0o644, 0o640
UNITS = {
    MachineRole.ZOOKEEPER: ("weir-zookeeper.service",),
    MachineRole.CONTROLLER: ("weir-controller@.service",),
    MachineRole.BROKER: ("weir-broker.service",),
    MachineRole.WORKER: ("weir-worker.service",),
    MachineRole.SPARK_WORKER: ("weir-spark-worker.service",),
    MachineRole.MONITOR: ("weir-monitor.service",),
    MachineRole.WEB: ("weir-web.service", "weir-live.service"),
}
"""The units of each role. PostgreSQL, Redis and nginx have those of their Debian packages."""


@dataclass(frozen=True, slots=True)
class MachineFile:
    """A file below the root directory of a machine."""

    path: str
    text: str
    mode: int = PLAIN


Template = Callable[[str], str]
"""The text of a file in `deploy/`, by its path there."""


def files_of(inventory: Inventory, machine: Machine, template: Template) -> list[MachineFile]:
    """All files of the machine. Raises InvalidInventory for a setting that its process would reject."""
    found = [
        MachineFile("etc/sysusers.d/weir.conf", template("sysusers.d/weir.conf")),
        MachineFile("etc/tmpfiles.d/weir.conf", template("tmpfiles.d/weir.conf")),
        MachineFile("etc/systemd/journald.conf.d/weir.conf", template("journald/weir.conf")),
        MachineFile("etc/weir/units", "".join(f"{unit}\n" for unit in started_units(machine))),
    ]
    roles = [role for role in MachineRole if role in machine.roles]
    found += [MachineFile(f"etc/systemd/system/{u}", template(f"systemd/{u}")) for r in roles for u in UNITS.get(r, ())]
    if machine.roles & CONTROL_PLANE:
        found.append(MachineFile("etc/weir/weir.env", environment_file(environment(inventory)), SECRET))
        if inventory.security:
            found += [
                MachineFile(security.KAFKA_CONFIG.lstrip("/"), _properties(security.kafka_client()), SECRET),
                MachineFile(
                    security.ZOOKEEPER_CONFIG.lstrip("/"), _properties(security.zookeeper_client(inventory)), SECRET
                ),
            ]
    writers = {
        MachineRole.ZOOKEEPER: _zookeeper,
        MachineRole.BROKER: _broker,
        MachineRole.WEB: _nginx,
        MachineRole.REDIS: _redis,
        MachineRole.POSTGRESQL: _postgresql,
    }
    for role, write in writers.items():
        if role in machine.roles:
            found += write(inventory, machine, template)
    return found


def started_units(machine: Machine) -> list[str]:
    """The units that the machine runs, in the order of starting."""
    units = [u for r in MachineRole if r in machine.roles for u in UNITS.get(r, ())]
    return [u.replace("@.", f"@{machine.id}.") for u in units]


def zookeeper_connect(inventory: Inventory) -> str:
    port = security.ZOOKEEPER_PORT if inventory.security else ZOOKEEPER_PORT
    return ",".join(f"{m.address}:{port}" for m in inventory.machines_with(MachineRole.ZOOKEEPER))


def _properties(values: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in values.items())


def environment(inventory: Inventory) -> dict[str, str]:
    """The environment of every process of the control plane. Raises InvalidInventory for an unknown variable or an invalid value."""
    host = urlsplit(inventory.settings.get("WEIR_CONSOLE_URL", "")).hostname or ""
    hosts = [host, *(m.address for m in inventory.machines_with(MachineRole.WEB)), "127.0.0.1", "localhost"]
    port = security.INTERNAL_PORT if inventory.security else BROKER_PORT
    derived = {
        "WEIR_DATA_DIR": CONTROL_DIR,
        "WEIR_BOOTSTRAP": ",".join(f"{m.address}:{port}" for m in inventory.machines_with(MachineRole.BROKER)),
        "WEIR_BROKERS": str(len(inventory.machines_with(MachineRole.BROKER))),
        "WEIR_ZOOKEEPER": zookeeper_connect(inventory),
        "WEIR_ALLOWED_HOSTS": ",".join(h for h in hosts if h),
        "WEIR_TRUSTED_ORIGINS": inventory.settings.get("WEIR_CONSOLE_URL", ""),
        "WEIR_MONITOR": "off",
    }
    if inventory.security:
        derived |= {"WEIR_KAFKA_CONFIG": security.KAFKA_CONFIG, "WEIR_ZOOKEEPER_CONFIG": security.ZOOKEEPER_CONFIG}
    found = {name: value for name, value in (derived | dict(inventory.settings)).items() if value}
    known = {v.name for v in variables().values()}
    problems = [f"[settings] {n} is not a variable of Weir (docs/settings.md)" for n in found if n not in known]
    problems += [f"[settings] {n} is not set: {INTERNAL[n]}" for n in found if n in INTERNAL]
    needed = ("WEIR_SECRET_KEY", "WEIR_DATABASE_URL", "CELERY_BROKER_URL", "CHANNELS_REDIS_URL")
    problems += [
        f"[settings] {n} is missing; the processes of several machines share it" for n in needed if n not in found
    ]
    try:
        read(found, {})
    except ImproperlyConfigured as e:
        problems += [f"[settings] {line}" for line in str(e).splitlines()]
    if problems:
        raise InvalidInventory("\n".join(problems))
    return found


def environment_file(values: Mapping[str, str]) -> str:
    """A file for systemd's EnvironmentFile, which a shell can read as well. Values have no quotation mark and no backslash (`inventory`)."""
    lines = "".join(f"{name}='{value}'\n" for name, value in values.items())
    return (
        "# Environment of the control plane (docs/settings.md), by `weir configure`. The same on each machine.\n"
        + lines
    )


def broker_settings(inventory: Inventory, machine: Machine) -> dict[str, str]:
    """The settings of the broker of this machine. Raises InvalidInventory for one that the broker would reject."""
    own = {
        "broker.id": str(machine.id),
        "broker.rack": machine.rack,
        "failure.domain": machine.name,
        "listeners": "PLAINTEXT://{address}:" + str(BROKER_PORT),
        "log.dirs": "/var/lib/weir/broker",
        "zookeeper.connect": zookeeper_connect(inventory),
    }
    if inventory.security:
        own |= security.broker_settings(inventory)
    words = {"{id}": str(machine.id), "{address}": machine.address, "{rack}": machine.rack}
    found = {}
    for name, value in {**own, **inventory.broker, **machine.broker}.items():
        for word, text in words.items():
            value = value.replace(word, text)
        if value:
            found[name] = value
    if inventory.security:
        security.check_broker(found, machine)
    try:
        BrokerConfig.parse(found, BROKER_SYNONYMS.__contains__)
    except ConfigError as e:
        raise InvalidInventory(f"[broker] of machine {machine.name}: {e}") from e
    return found


def _broker(inventory: Inventory, machine: Machine, template: Template) -> list[MachineFile]:
    lines = _properties(broker_settings(inventory, machine))
    head = f"# Broker {machine.id} on {machine.name}, by `weir configure`. deploy/broker.properties explains every setting.\n"
    return [MachineFile("etc/weir/broker.properties", head + lines, SECRET)]


def _zookeeper(inventory: Inventory, machine: Machine, template: Template) -> list[MachineFile]:
    own = {"clientPortAddress": machine.address}
    if inventory.security:
        own |= security.zookeeper_server(machine)
    own |= {f"server.{m.id}": f"{m.address}:2888:3888" for m in inventory.machines_with(MachineRole.ZOOKEEPER)}
    own |= {
        n: v.replace("{id}", str(machine.id)).replace("{address}", machine.address)
        for n, v in inventory.zookeeper.items()
    }
    # A setting of the inventory replaces the setting of the template. An empty value removes it.
    kept = [line for line in template("zookeeper/zoo.cfg").splitlines() if line.partition("=")[0] not in own]
    text = "".join(f"{line}\n" for line in [*kept, *(f"{n}={v}" for n, v in own.items() if v)])
    users = [MachineFile(security.JAAS_PATH, security.zookeeper_users(inventory), SECRET)] if inventory.security else []
    return [
        *users,
        MachineFile("etc/weir/zoo.cfg", text),
        MachineFile("etc/weir/log4j2.properties", template("zookeeper/log4j2.properties")),
        MachineFile("var/lib/weir/zookeeper/myid", f"{machine.id}\n"),
    ]


def _nginx(inventory: Inventory, machine: Machine, template: Template) -> list[MachineFile]:
    name = urlsplit(inventory.settings.get("WEIR_CONSOLE_URL", "")).hostname or "_"
    return [MachineFile("etc/nginx/conf.d/weir.conf", template("nginx/weir.conf").replace("@SERVER_NAME@", name))]


def _redis(inventory: Inventory, machine: Machine, template: Template) -> list[MachineFile]:
    password = unquote(urlsplit(inventory.settings.get("CELERY_BROKER_URL", "")).password or "")
    if not password:
        raise InvalidInventory("[settings] CELERY_BROKER_URL has no password: redis://:PASSWORD@host:6379/0")
    text = f"{template('redis/weir.conf')}bind 127.0.0.1 {machine.address}\nrequirepass {password}\n"
    return [MachineFile("etc/redis/weir.conf", text, SECRET)]


def _postgresql(inventory: Inventory, machine: Machine, template: Template) -> list[MachineFile]:
    """Files for PostgreSQL 15, the version of Debian 12. The lines for pg_hba.conf permit only connections of the control plane."""
    url = urlsplit(inventory.settings.get("WEIR_DATABASE_URL", ""))
    name, user = url.path.lstrip("/"), unquote(url.username or "")
    clients = [m for m in inventory.machines if m.roles & CONTROL_PLANE]
    access = "".join(f"hostssl {name} {user} {m.address}/32 scram-sha-256\n" for m in clients)
    text = f"{template('postgresql/weir.conf')}listen_addresses = 'localhost,{machine.address}'\n"
    return [
        MachineFile("etc/postgresql/15/main/conf.d/weir.conf", text),
        MachineFile("etc/weir/pg_hba.conf", access),
    ]
