"""Environment variables of Weir: name, type, unit, default, limits and meaning of each, as fields of one frozen dataclass.

`weir.settings` reads them once per process. All other code uses the result, `settings.WEIR`. The table in docs/settings.md is generated from
the fields. Does not contain: Django's own settings (`weir.settings`), logins (`weir.login_variables`), types of values (`weir.variable_kinds`), broker settings (`brokerd/config/broker.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from weir.login_variables import LoginSettings
from weir.variable_kinds import (
    BROKERS_MAX,
    CLUSTER_COLOURS,
    CONNECT_CLUSTERS,
    FILE,
    FOLDER,
    LOG_LEVEL,
    NICE_MAX,
    PRICE,
    SWITCH,
    TAILS_MAX,
    TEXT,
    Kind,
    Variable,
    addresses,
    choice,
    integer,
    memory,
    text_list,
    url,
    variable,
)

IN_LOCAL_CLUSTER = "as in local-cluster.json"


@dataclass(frozen=True, kw_only=True)
class WeirSettings(LoginSettings):
    """Every environment variable that the control plane, the console and the worker read, in the order of the documentation."""

    data_dir: Path = variable(
        "WEIR_DATA_DIR",
        FOLDER,
        "data",
        "Data directory of the local cluster. `local-cluster.json` in it, which `manage.py up` writes, is the source of several defaults.",
    )
    lake_dir: Path = variable(
        "WEIR_LAKE_DIR",
        FOLDER,
        "",
        "Archive jobs write here: Parquet files, and Iceberg tables unless WEIR_LAKE_WAREHOUSE is set.",
        default_note="`lake` in the data directory",
    )
    lake_catalog: str = variable(
        "WEIR_LAKE_CATALOG",
        url("sqlite", "postgresql", "http", "https", form="postgresql://user:password@host:port/name"),
        "",
        "Catalogue of the lake's Iceberg tables: SQLite, PostgreSQL or REST ([docs](lake.md#catalogue-and-warehouse)).",
        default_note="SQLite in WEIR_LAKE_DIR",
        secret=True,
    )
    lake_warehouse: str = variable(
        "WEIR_LAKE_WAREHOUSE",
        TEXT,
        "",
        "Where the files of the Iceberg tables are: a directory or s3://bucket/path.",
        default_note="WEIR_LAKE_DIR",
    )
    lake_options: str = variable(
        "WEIR_LAKE_OPTIONS",
        TEXT,
        "",
        "Further properties of pyiceberg, as name=value separated by commas, for example s3.endpoint=https://host.",
        default_note="none",
        secret=True,
    )
    database_url: str = variable(
        "WEIR_DATABASE_URL",
        url("postgres", "postgresql", form="postgres://user:password@host:port/name"),
        "",
        "PostgreSQL database. The query may have `sslmode`, `sslrootcert`, `sslcert`, `sslkey` and `target_session_attrs`.",
        default_note="SQLite in the data directory",
        secret=True,
    )
    secret_key: str = variable(
        "WEIR_SECRET_KEY",
        TEXT,
        "",
        "Signs sessions: 50 random characters or more, the same for all web processes and workers. Web processes do not serve without it.",
        default_note=IN_LOCAL_CLUSTER,
        secret=True,
    )
    bootstrap: str = variable(
        "WEIR_BOOTSTRAP",
        Kind("list", "host:port, separated by commas", addresses),
        "",
        "Brokers that the cluster monitor, the worker and archive jobs contact first.",
        default_note=IN_LOCAL_CLUSTER,
    )
    brokers: int = variable(
        "WEIR_BROKERS",
        integer(1, BROKERS_MAX),
        "3",
        "Number of brokers of the cluster. With fewer than three, controllers create the internal topics with this number of replicas.",
        default_note=f"{IN_LOCAL_CLUSTER}; else 3",
        unit="brokers",
    )
    zookeeper: str = variable(
        "WEIR_ZOOKEEPER",
        TEXT,
        "",
        "ZooKeeper servers, as host:port separated by commas, with a chroot path if the cluster has one.",
        default_note=IN_LOCAL_CLUSTER,
    )
    kafka_config: Path | None = variable(
        "WEIR_KAFKA_CONFIG",
        FILE,
        "",
        "client.properties for a secured listener of the brokers ([how-to](how-to/secure-a-cluster.md)).",
        default_note=f"{IN_LOCAL_CLUSTER}; else plaintext",
    )
    kafka_listener: str = variable(
        "WEIR_KAFKA_LISTENER",
        Kind("string", "a listener name", str.upper),
        "",
        "Name of the listener to use, if several listeners have the protocol of WEIR_KAFKA_CONFIG.",
        default_note="the first listener with that protocol",
    )
    schema_registry_url: str = variable(
        "WEIR_SCHEMA_REGISTRY_URL",
        url("http", "https", form="https://[user:password@]host:port"),
        "",
        "Confluent-compatible schema registry, for messages in Avro, Protobuf or JSON Schema ([how-to](how-to/record-formats.md)).",
        default_note="none",
        secret=True,
    )
    connect_urls: tuple[tuple[str, tuple[str, ...]], ...] = variable(
        "WEIR_CONNECT_URLS",
        CONNECT_CLUSTERS,
        "",
        "Kafka Connect clusters: a name and the REST addresses of its workers for each ([how-to](how-to/kafka-connect.md)).",
        default_note="none",
        secret=True,
    )
    zookeeper_config: Path | None = variable(
        "WEIR_ZOOKEEPER_CONFIG",
        FILE,
        "",
        "Properties for a secured ZooKeeper: zookeeper.ssl.*, zookeeper.sasl.jaas.config.",
        default_note=f"{IN_LOCAL_CLUSTER}; else plaintext",
    )
    celery_broker_url: str = variable(
        "CELERY_BROKER_URL",
        TEXT,
        "",
        "Redis or Valkey for tasks, in production.",
        default_note="a directory in the data directory",
        secret=True,
    )
    channels_redis_url: str = variable(
        "CHANNELS_REDIS_URL",
        TEXT,
        "",
        "Redis or Valkey for live updates, needed for several web processes.",
        default_note="memory of the web process",
        secret=True,
    )
    beat: bool = variable(
        "WEIR_BEAT",
        SWITCH,
        "on",
        "The worker also runs Celery's beat. `off` if beat runs elsewhere. Several workers may each run it: duplicate tasks have no effect.",
    )
    heartbeat_file: Path | None = variable(
        "WEIR_HEARTBEAT_FILE",
        FILE,
        "",
        "Controllers, monitors and workers update the modification time of this file while they work, for the liveness probes of Kubernetes.",
        default_note="none",
    )
    monitor: bool = variable(
        "WEIR_MONITOR",
        SWITCH,
        "on",
        "The web process runs the cluster monitor. `off` if `manage.py monitor` runs it in its own process, which several web processes need.",
    )
    spark_nice: int = variable(
        "WEIR_SPARK_NICE",
        integer(0, NICE_MAX),
        "10",
        "CPU priority of Spark drivers, so that they do not slow brokers on the same machine. 0 on a dedicated machine.",
        unit="nice value",
    )
    spark_master: str = variable(
        "WEIR_SPARK_MASTER",
        TEXT,
        "local[*]",
        "Spark master of the jobs: local, spark://host:port, yarn or k8s://… ([how-to](how-to/run-spark-jobs.md)).",
    )
    spark_driver_memory: str = variable(
        "WEIR_SPARK_DRIVER_MEMORY",
        Kind("size", "a number with m or g", memory),
        "1g",
        "Memory of a Spark driver's JVM.",
    )
    auto_recovery: bool = variable(
        "WEIR_AUTO_RECOVERY",
        SWITCH,
        "off",
        "Damaged replicas that brokers report are deleted and fetched again automatically, if another replica is in sync.",
    )
    price_disk: float | None = variable(
        "WEIR_PRICE_DISK_GB_MONTH",
        PRICE,
        "",
        "Price of brokers' disks per GB (10^9 bytes) and month, for cost estimates on the pages of topics. Each replica counts.",
        default_note="no estimate",
    )
    price_remote: float | None = variable(
        "WEIR_PRICE_REMOTE_GB_MONTH",
        PRICE,
        "",
        "Price of the remote store of tiered storage per GB (10^9 bytes) and month. Requests and traffic are not estimated.",
        default_note="no estimate",
    )
    price_currency: str = variable(
        "WEIR_PRICE_CURRENCY", TEXT, "USD", "Currency of the prices, shown next to the estimates."
    )
    second_person: bool = variable(
        "WEIR_SECOND_PERSON",
        choice({"required": True, "off": False}),
        "required",
        "A proposal that overrides a safety rule needs approval by another operator. `off` for a cluster with one operator "
        "([how-to](how-to/override-a-safety-rule.md)).",
    )
    read_only: bool = variable(
        "WEIR_READ_ONLY",
        SWITCH,
        "off",
        "The console and the REST API reject every change of the cluster, also those of operators, for example during a freeze. Moves, jobs and "
        "self-healing that are running continue, and Kafka clients are not limited. `manage.py` commands work.",
    )
    view_by_role: bool = variable(
        "WEIR_VIEW_BY_ROLE",
        SWITCH,
        "off",
        "Users without `is_staff` see only the resources of their role bindings, in all lists, pages and totals of the console and the REST "
        "API ([how-to](how-to/give-roles.md#what-users-see)). `off`: every user sees the whole cluster.",
    )
    console_url: str = variable(
        "WEIR_CONSOLE_URL",
        url("http", "https", form="https://host[:port]"),
        "",
        "Address of the console in the links of notifications ([how-to](how-to/notifications.md)). With https, cookies are sent over TLS only.",
        default_note=f"{IN_LOCAL_CLUSTER}; else no links",
    )
    smtp_url: str = variable(
        "WEIR_SMTP_URL",
        url("smtp", "smtps", "smtp+starttls", form="smtp://, smtps:// or smtp+starttls://[user:password@]host[:port]"),
        "",
        "Mail server for notifications by e-mail. `smtps` uses TLS from the start, `smtp+starttls` after STARTTLS.",
        default_note="none",
        secret=True,
    )
    mail_from: str = variable("WEIR_MAIL_FROM", TEXT, "weir@localhost", "Sender of notifications by e-mail.")
    allowed_hosts: tuple[str, ...] = variable(
        "WEIR_ALLOWED_HOSTS",
        text_list(r"\S+", "host names"),
        "127.0.0.1,localhost,[::1],testserver",
        "Host names of the console (Django's ALLOWED_HOSTS).",
    )
    trusted_origins: tuple[str, ...] = variable(
        "WEIR_TRUSTED_ORIGINS",
        text_list(r"https?://\S+", "https://host[:port]"),
        "",
        "Origins of forms, if a proxy in front of the console ends TLS (Django's CSRF_TRUSTED_ORIGINS).",
    )
    cluster_colour: str = variable(
        "WEIR_CLUSTER_COLOUR",
        choice({c: c for c in CLUSTER_COLOURS}),
        "none",
        "Colour of the top bar, to distinguish clusters. `red` is meant for production.",
    )
    clusters_file: Path | None = variable(
        "WEIR_CLUSTERS_FILE",
        FILE,
        "",
        "YAML file with the consoles of other clusters, for the page Clusters and the menu of clusters ([how-to](how-to/several-clusters.md)).",
        default_note="none",
    )
    tails_per_user: int = variable(
        "WEIR_TAILS_PER_USER",
        integer(1, TAILS_MAX),
        "3",
        "Live tails of one user at the same time, in one web process ([how-to](how-to/find-a-message.md)).",
    )
    tails_max: int = variable(
        "WEIR_TAILS_MAX",
        integer(1, TAILS_MAX),
        "20",
        "Live tails of all users at the same time, in one web process. Each needs a thread and connections to the leaders of its topic.",
    )
    log_level: str = variable("WEIR_LOG_LEVEL", LOG_LEVEL, "INFO", "Lowest level of logged messages.")
    debug: bool = variable("WEIR_DEBUG", SWITCH, "off", "Django's DEBUG. Never in production: error pages show code.")


INTERNAL = {
    "WEIR_PASSWORD": "The password for `manage.py ensure_operator`; `up` sets it for that command only.",
    "WEIR_TOKEN": "The API token of an operator, in the `curl` commands that the console shows, and for the command line.",
    "WEIR_URL": "Address of the console, for the command line ([how-to](how-to/command-line.md)).",
}
"""Variables that are no settings of a process."""


def variables() -> dict[str, Variable]:
    """The variable of each field of WeirSettings, in order; those of logins at the end."""
    logins = {f.name for f in fields(LoginSettings)}
    return {f.name: f.metadata["variable"] for f in sorted(fields(WeirSettings), key=lambda f: f.name in logins)}


def read(environ: Mapping[str, str], defaults: Mapping[str, str]) -> WeirSettings:
    """The settings in `environ`. `defaults`: texts by field name, instead of the fields' defaults. An empty variable is not set.

    Raises ImproperlyConfigured with one line per invalid variable.
    """
    values: dict[str, Any] = {}
    errors = []
    for name, known in variables().items():
        text = environ.get(known.name, "") or defaults.get(name, "") or known.default
        try:
            values[name] = known.kind.parse(text)
        except ValueError:
            shown = "a value that is not shown here" if known.secret else repr(text)
            unit = f" ({known.unit})" if known.unit else ""
            errors.append(f"{known.name} is {shown}; allowed: {known.kind.allowed}{unit}")
    if errors:
        raise ImproperlyConfigured("\n".join(errors))
    return WeirSettings(**values)
