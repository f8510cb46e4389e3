"""Topics, partitions and their messages."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import shapes
from controlplane.api.doors import Door, found, out, out_list, reads, writes
from controlplane.selectors import messages, partitions, topics
from controlplane.services import Refused
from controlplane.services import topics as services


def _placed(assignment: dict[str, list[int]] | None) -> dict[int, list[int]] | None:
    """JSON's text keys as numbers. Raises Refused for others."""
    if assignment is None:
        return None
    try:
        return {int(k): v for k, v in assignment.items()}
    except ValueError:
        raise Refused("The assignment's keys are partition numbers.", "assignment") from None


class Topics(Door):
    @reads(shapes.page_of(topics.TopicRow), shapes.TopicQuery)
    def get(self, request: Request) -> Response:
        return out(topics.topic_list(**self.listing(shapes.TopicQuery, "name")))

    @writes(shapes.TopicCreate, shapes.shape(topics.TopicRow), 202)
    def post(self, request: Request) -> Response:
        """Ask for a topic. 202: it is there when `applied_generation` equals `generation`."""
        v = self.body(shapes.TopicCreate)
        services.create_topic(
            v["name"],
            partitions=v["partitions"],
            replication_factor=v["replication_factor"],
            configs=v["configs"],
            assignment=_placed(v["assignment"]),
            who=self.who,
            why=v["why"],
        )
        return out(found(topics.topic_row(v["name"]), f"topic {v['name']}"), 202)


class Topic(Door):
    @reads(shapes.shape(topics.TopicDetail))
    def get(self, request: Request, name: str) -> Response:
        return out(found(topics.topic_detail(name), f"topic {name!r}"))

    @writes(shapes.TopicAlter, shapes.shape(topics.TopicDetail), 202)
    def patch(self, request: Request, name: str) -> Response:
        v = self.body(shapes.TopicAlter)
        found(topics.topic_row(name), f"topic {name!r}")
        services.alter_topic(
            name,
            partitions=v["partitions"],
            set_configs={k: c for k, c in v["configs"].items() if c is not None},
            delete_configs=[k for k, c in v["configs"].items() if c is None],
            assignment=_placed(v["assignment"]),
            who=self.who,
            why=v["why"],
            if_generation=v["if_generation"],
        )
        return out(found(topics.topic_detail(name), f"topic {name!r}"), 202)

    @writes(shapes.Reason, None, 202)
    def delete(self, request: Request, name: str) -> Response:
        """Set the tombstone. Its records go with it."""
        found(topics.topic_row(name), f"topic {name!r}")
        services.delete_topic(name, who=self.who, why=self.body(shapes.Reason)["why"])
        return Response(status=202)


class TopicConfigs(Door):
    @reads(shapes.shape(topics.ConfigRow)(many=True))
    def get(self, request: Request, name: str) -> Response:
        found(topics.topic_row(name), f"topic {name!r}")
        return out_list(topics.topic_configs(name))


class TopicPartitions(Door):
    @reads(shapes.page_of(partitions.PartitionRow), shapes.PartitionQuery)
    def get(self, request: Request, name: str) -> Response:
        found(topics.topic_row(name), f"topic {name!r}")
        v = self.listing(shapes.PartitionQuery, "index")
        v.pop("query")
        v.pop("topic")
        return out(partitions.partition_list(name, **v))


class Partitions(Door):
    @reads(shapes.page_of(partitions.PartitionRow), shapes.PartitionQuery)
    def get(self, request: Request) -> Response:
        v = self.listing(shapes.PartitionQuery, "topic")
        v.pop("query")
        return out(partitions.partition_list(**v))


class Partition(Door):
    @reads(shapes.shape(partitions.PartitionRow))
    def get(self, request: Request, name: str, partition: int) -> Response:
        return out(found(partitions.partition_row(name, partition), f"partition {name}-{partition}"))


class Messages(Door):
    @reads(shapes.shape(messages.MessageRead), shapes.MessageQuery)
    def get(self, request: Request, name: str, partition: int) -> Response:
        """A bounded look-up in one partition; `complete` says whether all that was asked for came in time."""
        found(partitions.partition_row(name, partition), f"partition {name}-{partition}")
        return out(messages.read_messages(name, partition, **self.read(shapes.MessageQuery)))
