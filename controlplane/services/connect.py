"""Changes of Kafka Connect by an operator: create, change, pause, resume, stop, restart and delete connectors, restart a task.

Invariants: an audit row is written before the request and gets its outcome afterwards: the workers may carry out a request whose response is lost. If a worker
rejects a request, its message is shown unchanged. No audit row and no error contains a secret of a config. A config is validated before it is sent. Does not
contain: reading (`controlplane.selectors.connect`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from dataclasses import fields as fields_of
from functools import partial

from controlplane.clients import connectors as api
from controlplane.clients.connect import (
    ConnectClient,
    ConnectRejected,
    ConnectUnavailable,
    ConnectUnknown,
    ConnectUnreachable,
)
from controlplane.clients.connectors import ConfigDefinition, ValidatedConfig
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.connect import ConfigType, hidden_value, hide_secrets, restore_secrets, without_secrets
from controlplane.domain.errors import AlreadyExists, MisfitValue, Rejected
from controlplane.models.change import Outcome
from controlplane.selectors.connect import client_of, config_version, secret_names
from controlplane.services.common import finish_changes, needs_reason, record, recorded_rejections
from weir_common.phrases import joined, reason_of, sentence

NAME_CHARS_MAX = 200
"""Maximum number of characters of the name of a connector. A consumer group gets it with a prefix, and the audit log has 255 for cluster and name."""

CHARS_REJECTED = frozenset("/\\%;")
"""Workers accept connector names with these characters, but later reject every URL that contains them (Jetty 12)."""

CONFIGS_MAX = 1_000
"""Maximum number of configs of one connector; those with the most have a few hundred. The audit row has all of them."""

VALUE_CHARS_MAX = 100_000
"""Characters of one config; queries and schemas are the longest."""

UNKNOWN_OUTCOME = sentence("The workers may have carried it out. Look at the connector before you try again.")
CHANGED_MEANWHILE = "The config was changed after you opened it. Open it again and repeat your change."
CLASS = "connector.class"
HIDDEN_VALUE = sentence("The shown value is hidden. Leave it unchanged to keep the stored one, or enter a new value.")


@dataclass(frozen=True, slots=True)
class ConnectorConfigField(ConfigDefinition):
    """A config with its definition by the plugin. `value` is without secrets; null: the config is not set. `default` null: there is no default.
    `recommended`: allowed or suggested
    values. `importance`: HIGH, MEDIUM or LOW. `errors`: why the worker does not accept the value, without secrets."""

    value: str | None
    recommended: list[str]
    errors: list[str]


@dataclass(frozen=True, slots=True)
class ConnectorConfigChange:
    """`before` and `after` are without secrets; null: the config is not set. If a secret changes, both texts are equal."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class ConnectorValidation:
    """`fields`: the configs that the plugin and its transforms define. `changes`: the configs that would change; for a new connector all of them."""

    valid: bool
    error_count: int
    fields: list[ConnectorConfigField]
    changes: list[ConnectorConfigChange]


def validate_config(cluster: str, name: str, config: Mapping[str, str]) -> ConnectorValidation:
    """Check whether the workers would accept the config of a new or an existing connector. Hidden values are those of the existing one. Changes nothing.
    Raises Rejected."""
    client = client_of(cluster)
    stored = _stored_config(client, name)
    complete = _complete(client, name, config, stored)
    secrets = secret_names(client, complete)
    found = _validate_config(client, complete)
    fields = [_field(d, complete, secrets) for d in found if d.is_visible or d.errors]
    errors = sum(len(f.errors) for f in fields)
    return ConnectorValidation(errors == 0, errors, fields, changes(stored or {}, complete, secrets))


def connector_fields(cluster: str, config: Mapping[str, str], name: str = "") -> list[ConnectorConfigField]:
    """The configs that the plugin of `config` defines, for a form, without errors. `name`: the connector whose hidden values `config` contains.
    Raises Rejected."""
    client = client_of(cluster)
    secrets = secret_names(client, config)
    complete, _ = restore_secrets(config, _stored_config(client, name) or {}, secrets)
    found = _validate_config(client, complete)
    return [replace(_field(d, complete, secrets), errors=[]) for d in found if d.is_visible]


def create_connector(cluster: str, name: str, config: Mapping[str, str], *, actor: str, comment: str) -> None:
    """Create a connector; it starts immediately. Raises Rejected, MisfitValue with all errors of the validation, AlreadyExists."""
    verb, requested = AuditOperation.CONNECTOR_CREATE, _names(config)
    with recorded_rejections(actor, verb, "connector", _object(cluster, name), comment=comment, after=requested):
        needs_reason(comment)
        client = client_of(cluster)
        if _stored_config(client, name) is not None:
            raise AlreadyExists(
                sentence("Connect cluster {cluster} has a connector {name} already.", cluster=cluster, name=repr(name)),
                "name",
            )
        if CHARS_REJECTED & set(name) or name.strip() in (".", ".."):
            raise Rejected("A name has no / \\ % and ;: Kafka Connect workers reject paths with them.", "name")
        complete = _complete(client, name, config, None)
        _check(client, complete)
    secrets = secret_names(client, complete)
    _send_audited(
        verb,
        cluster,
        name,
        actor,
        comment,
        lambda: api.create(client, name, complete),
        after=hide_secrets(complete, secrets),
        hide=partial(without_secrets, config=complete, secret_names=secrets),
    )


def change_connector(
    cluster: str, name: str, config: Mapping[str, str], *, actor: str, comment: str, version: str = ""
) -> None:
    """Replace the config of a connector; its tasks restart. A hidden value keeps the stored one. `version`: the version of the config that was
    edited; "" = any version. Raises
    Rejected, MisfitValue with all errors of the validation."""
    verb, requested = AuditOperation.CONNECTOR_CHANGE, _names(config)
    with recorded_rejections(actor, verb, "connector", _object(cluster, name), comment=comment, after=requested):
        needs_reason(comment)
        client = client_of(cluster)
        stored = _stored_config(client, name)
        if stored is None:
            raise Rejected(
                sentence("Connect cluster {cluster} has no connector {name}.", cluster=cluster, name=repr(name)), "name"
            )
        if version and version != config_version(stored):
            raise Rejected(CHANGED_MEANWHILE)
        complete = _complete(client, name, config, stored)
        _check(client, complete)
    secrets = secret_names(client, complete)
    changed = changes(stored, complete, secrets)
    _send_audited(
        verb,
        cluster,
        name,
        actor,
        comment,
        lambda: api.change_config(client, name, complete),
        before={c.name: c.before for c in changed},
        after={c.name: c.after for c in changed},
        hide=partial(without_secrets, config=complete, secret_names=secrets),
    )


def pause_connector(cluster: str, name: str, *, actor: str, comment: str = "") -> None:
    """Pause: the tasks stop reading and writing and stay assigned. Raises Rejected, like all functions below."""
    _change(AuditOperation.CONNECTOR_PAUSE, cluster, name, actor, comment, lambda c: api.pause(c, name))


def resume_connector(cluster: str, name: str, *, actor: str, comment: str = "") -> None:
    """Start a paused or a stopped connector."""
    _change(AuditOperation.CONNECTOR_RESUME, cluster, name, actor, comment, lambda c: api.resume(c, name))


def stop_connector(cluster: str, name: str, *, actor: str, comment: str) -> None:
    """Stop: the tasks end and free their resources; the config and the offsets stay."""
    _change(
        AuditOperation.CONNECTOR_STOP, cluster, name, actor, comment, lambda c: api.stop(c, name), reason_needed=True
    )


def restart_connector(
    cluster: str, name: str, *, include_tasks: bool, only_failed: bool, actor: str, comment: str = ""
) -> None:
    requested = {"include_tasks": include_tasks, "only_failed": only_failed}
    _change(
        AuditOperation.CONNECTOR_RESTART,
        cluster,
        name,
        actor,
        comment,
        lambda c: api.restart(c, name, include_tasks=include_tasks, only_failed=only_failed),
        after=requested,
    )


def restart_task(cluster: str, name: str, task: int, *, actor: str, comment: str = "") -> None:
    _change(
        AuditOperation.CONNECTOR_RESTART,
        cluster,
        name,
        actor,
        comment,
        lambda c: api.restart_task(c, name, task),
        after={"task": task},
    )


def delete_connector(cluster: str, name: str, *, actor: str, comment: str) -> None:
    """Delete the connector. Its topics, its records and the consumer group of a sink are not deleted. Offsets of a source stay in the offsets topic."""
    _change(
        AuditOperation.CONNECTOR_DELETE,
        cluster,
        name,
        actor,
        comment,
        lambda c: api.delete(c, name),
        reason_needed=True,
    )


def changes(
    stored: Mapping[str, str], complete: Mapping[str, str], secrets: frozenset[str]
) -> list[ConnectorConfigChange]:
    """Configs with another value, sorted by name."""

    def display_value(config: Mapping[str, str], key: str) -> str | None:
        return hidden_value(key, config[key], secrets) if key in config else None

    names = sorted(n for n in {*stored, *complete} if stored.get(n) != complete.get(n))
    return [ConnectorConfigChange(n, display_value(stored, n), display_value(complete, n)) for n in names]


def _stored_config(client: ConnectClient, name: str) -> dict[str, str] | None:
    """The config of a connector, None if there is none."""
    if not name.strip():
        return None
    try:
        return api.connector_config(client, name)
    except ConnectUnknown:
        return None
    except ConnectUnavailable as error:
        raise Rejected(reason_of(error)) from None


def _complete(
    client: ConnectClient, name: str, config: Mapping[str, str], stored: Mapping[str, str] | None
) -> dict[str, str]:
    """The config with its name and with the stored secrets."""
    if not name.strip() or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise Rejected(sentence("A name has 1 to {max} characters.", max=NAME_CHARS_MAX), "name")
    if not config.get(CLASS, "").strip():
        raise MisfitValue("config", [(f"$.{CLASS}", sentence("{name} is required.", name=CLASS))])
    if len(config) > CONFIGS_MAX or any(len(v) > VALUE_CHARS_MAX for v in config.values()):
        raise Rejected(
            sentence(
                "At most {max} configs with {max_2} characters each.",
                max=f"{CONFIGS_MAX:,}",
                max_2=f"{VALUE_CHARS_MAX:,}",
            ),
            "config",
        )
    secrets = secret_names(client, config)
    complete, unknown = restore_secrets(config, stored or {}, secrets)
    if unknown:
        raise MisfitValue("config", [(f"$.{n}", HIDDEN_VALUE) for n in sorted(unknown)])
    return {**complete, "name": name}


def _validate_config(client: ConnectClient, complete: Mapping[str, str]) -> list[ValidatedConfig]:
    try:
        return api.validate(client, complete)
    except ConnectUnknown as error:
        raise MisfitValue("config", [(f"$.{CLASS}", reason_of(error))]) from None
    except ConnectRejected as error:
        raise Rejected(without_secrets(reason_of(error), complete), "config") from None
    except ConnectUnavailable as error:
        raise Rejected(without_secrets(reason_of(error), complete)) from None


def _check(client: ConnectClient, complete: Mapping[str, str]) -> None:
    """Raises MisfitValue with all errors of the worker's validation."""
    secrets = secret_names(client, complete)
    faults = [
        (f"$.{d.name}", without_secrets(text, complete, secrets))
        for d in _validate_config(client, complete)
        for text in d.errors
    ]
    if faults:
        raise MisfitValue("config", faults)


def _field(d: ValidatedConfig, complete: Mapping[str, str], secrets: frozenset[str]) -> ConnectorConfigField:
    known = secrets | ({d.name} if d.type == ConfigType.PASSWORD else set())
    value = complete.get(d.name)
    return ConnectorConfigField(
        **{f.name: getattr(d, f.name) for f in fields_of(ConfigDefinition)},
        value=None if value is None else hidden_value(d.name, value, known),
        recommended=d.recommended,
        errors=[without_secrets(e, complete, known) for e in d.errors],
    )


def _change(
    verb: AuditOperation,
    cluster: str,
    name: str,
    actor: str,
    comment: str,
    send: Callable[[ConnectClient], None],
    *,
    after: object = None,
    reason_needed: bool = False,
) -> None:
    with recorded_rejections(actor, verb, "connector", _object(cluster, name), comment=comment, after=after):
        if reason_needed:
            needs_reason(comment)
        client = client_of(cluster)
    _send_audited(verb, cluster, name, actor, comment, lambda: send(client), after=after)


def _send_audited(
    verb: AuditOperation,
    cluster: str,
    name: str,
    actor: str,
    comment: str,
    send: Callable[[], None],
    *,
    before: object = None,
    after: object = None,
    hide: Callable[[str], str] = lambda text: text,
) -> None:
    object_id = f"connector-{uuid.uuid4().hex}"
    record(
        actor,
        verb,
        "connector",
        _object(cluster, name),
        comment=comment,
        before=before,
        after=after,
        object_id=object_id,
    )
    try:
        send()
    except (ConnectRejected, ConnectUnknown) as error:
        text = hide(reason_of(error))
        finish_changes(object_id, None, Outcome.REJECTED, text)
        raise Rejected(text) from None
    except ConnectUnreachable as error:
        text = joined([reason_of(error), UNKNOWN_OUTCOME]) if error.sent else reason_of(error)
        finish_changes(object_id, None, Outcome.UNKNOWN if error.sent else Outcome.REJECTED, text)
        raise Rejected(text) from None
    except ConnectUnavailable as error:
        text = joined([hide(reason_of(error)), UNKNOWN_OUTCOME])
        finish_changes(object_id, None, Outcome.UNKNOWN, text)
        raise Rejected(text) from None
    finish_changes(object_id, None, Outcome.CONFIRMED, "")


def _object(cluster: str, name: str) -> str:
    return f"{cluster}/{name}"[:255]


def _names(config: Mapping[str, str]) -> dict[str, object]:
    """Return the audit values of a rejected config: without config values, because it is not known yet which of them are secrets."""
    return {CLASS: config.get(CLASS, "")[:255], "configs": sorted(config)[:CONFIGS_MAX]}
