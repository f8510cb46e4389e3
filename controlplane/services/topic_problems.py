"""All problems of a requested topic or config together, for forms. The services of topics report only the first problem."""

from __future__ import annotations

from collections.abc import Mapping

from brokerd.cluster.configs import contradiction, topic_config_problem
from brokerd.cluster.majority_config import replication_problem
from brokerd.cluster.model import topic_name_problem
from controlplane.services.common import Rejected
from controlplane.services.topic_checks import check_counts


def config_problems(configs: Mapping[str, str]) -> dict[str, str]:
    """The problem of each invalid config, by its name."""
    return {name: p for name, value in configs.items() if (p := topic_config_problem(name, value)) is not None}


def creation_problems(
    name: str | None, partitions: int | None, replication_factor: int | None, configs: Mapping[str, str] | None
) -> list[tuple[str, str]]:
    """(field, problem) of a new topic. None: the value is unknown and not checked. Does not check whether the topic exists."""
    found: list[tuple[str, str]] = []
    if name is not None and (problem := topic_name_problem(name)) is not None:
        found.append(("name", problem))
    for count, factor in ((partitions, None), (None, replication_factor)):
        try:
            if count is not None or factor is not None:
                check_counts(1 if count is None else count, 1 if factor is None else factor)
        except Rejected as error:
            found.append((error.field, error.reason))
    if configs is not None:
        wrong = config_problems(configs)
        found += [("configs", problem) for problem in wrong.values()]
        if not wrong and (together := contradiction(configs)) is not None:
            found.append(("configs", together))
        if replication_factor is not None and (few := replication_problem(configs, replication_factor)) is not None:
            found.append(("replication_factor", few))
    return found
