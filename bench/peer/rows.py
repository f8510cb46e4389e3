"""The rows of the table: records, number of topics, durability. Data only. Shapes and names follow the OpenMessaging Benchmark (driver-kafka and
workloads/*.yaml: 1 or 100 topics of one partition, 100 B or 1 KiB, backlog reads, a fixed producer rate).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

SIZES = {100: "100b", 1024: "1kb"}


@dataclass(frozen=True, slots=True)
class Load:
    """Produce at full speed, then (`backlog`) read from the beginning. `megabytes` are of values, 10^6 bytes."""

    topics: int
    record_bytes: int
    replicas: int
    acks: str
    batch_bytes: int
    megabytes: int
    backlog: bool
    quick: bool
    tls: bool = False

    @property
    def name(self) -> str:
        return f"max-rate-{self.topics}-topic{'s' if self.topics > 1 else ''}-1-partition-{SIZES[self.record_bytes]}"

    @property
    def backlog_name(self) -> str:
        return self.name.replace("max-rate", "backlog")

    @property
    def terms(self) -> str:
        return f"RF {self.replicas}, acks={self.acks}, {'16 KiB' if self.batch_bytes < 100_000 else '1 MB'} batches{', TLS' if self.tls else ''}"

    @property
    def count(self) -> int:
        return self.megabytes * 1_000_000 // self.record_bytes


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_second` records of 1 KiB for `seconds` (half of it in a quick run): latency of acknowledgement."""

    per_second: int
    replicas: int
    acks: str
    seconds: float
    quick: bool

    @property
    def name(self) -> str:
        return f"rate-{self.per_second}-1-topic-1-partition-1kb"

    @property
    def terms(self) -> str:
        return f"RF {self.replicas}, acks={self.acks}, linger 1 ms"


PROMISES = ((1, "1"), (1, "all"), (3, "1"), (3, "all"))


def _loads() -> tuple[Load, ...]:
    out = []
    for topics, size, (replicas, acks), batch in product((1, 100), (1024, 100), PROMISES, (16_384, 1_000_000)):
        if (replicas, acks) in ((1, "all"), (3, "1")) and (topics, size) != (1, 1024):
            continue  # one shape suffices to show the effect of the durability alone
        megabytes = {(100, 1): 60, (100, 3): 40, (1024, 1): 250, (1024, 3): 120}[size, replicas]
        backlog = (replicas, acks) in ((1, "1"), (3, "all")) and (topics == 1 or size == 1024)
        quick = topics == 1 and size == 1024 and (replicas, acks) in ((1, "1"), (3, "all"))
        out.append(Load(topics, size, replicas, acks, batch, megabytes, backlog, quick))
    out += [Load(1, 1024, 1, "1", batch, 250, True, False, tls=True) for batch in (16_384, 1_000_000)]
    # A run that ends early has measured the two common durability settings in every shape.
    return tuple(sorted(out, key=lambda load: (load.replicas, load.acks) in ((1, "all"), (3, "1"))))


LOADS = _loads()
RATES = tuple(
    Rate(per_second, replicas, acks, 8.0, quick=per_second == 1_000)
    for (replicas, acks), per_second in product(((1, "1"), (3, "all")), (1_000, 10_000))
)
