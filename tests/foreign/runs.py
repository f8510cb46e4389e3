"""Runs one program at a time against one cluster, and reads its results. Invariants: a program that hangs or dies answers no for the feature it was at, and is started
again for the rest; what the log must show is read from the disks after a yes."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from brokerd.cluster.metadata import AccessKind
from brokerd.wire import records
from tests.cluster.local import ROOT, LocalCluster, free_port, wait_for
from tests.faults import scene
from tests.foreign.features import FIRST_MS, Feature
from tests.foreign.issuer import AUDIENCE, Issuer
from tests.pki import Authority

FEATURE_SECONDS_MAX = 150.0
"""Above the sum of the waits a program may spend on one feature when all goes well but slowly."""
KILL_AFTER = 100
"""Acknowledged records before the leader is killed; programs write 600."""
PASSWORD = "correct horse"


class DevCluster(LocalCluster):
    """Three brokers with an authoriser: PLAINTEXT (everything allowed), SASL_SSL and SSL with certificates on both sides, where alice may do everything and
    bob nothing. Who alice is at the last a rule says: her certificate's whole name may do nothing."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, brokers=3)
        self.authority = Authority(folder / "pki")
        pem = self.authority.issue("broker")
        self.people = {name: self.authority.issue(name, f"/O=Weir/CN={name}") for name in ("alice", "bob")}
        self.issuer = Issuer(folder, PASSWORD)
        self.secured = {i: free_port() for i in self.ports}
        self.mutual = {i: free_port() for i in self.ports}
        self.programs: list[subprocess.Popen[bytes]] = []
        """All that were started."""
        for i, plain in self.ports.items():
            self.own_settings[i] = {
                "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_SSL://127.0.0.1:{self.secured[i]},SSL://127.0.0.1:{self.mutual[i]}",
                "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url": self.issuer.keys.as_uri(),
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS;User:alice",
                "ssl.keystore.location": str(pem),
                "ssl.truststore.location": str(self.authority.ca),
                "listener.name.ssl.ssl.client.auth": "required",
                "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=([a-z]+),O=Weir$/$1/",
                "transaction.version": "2",
                "group.streams.min.session.timeout.ms": "6000",
                "group.streams.min.heartbeat.interval.ms": "1000",
            }

    def __enter__(self) -> DevCluster:
        super().__enter__()
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for user in ("alice", "bob"):
            info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
            for done in admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion(user, info, PASSWORD.encode())]
            ).values():
                done.result(60)
        return self

    def __exit__(self, *more: object) -> None:
        super().__exit__(*more)
        self.issuer.close()

    def environment(self, prefix: str) -> dict[str, str]:
        """Environment of the programs. `SCENE_ALICE` and `SCENE_BOB` are PEM files with key and certificate, beside a .key and a .crt file."""
        return {
            "SCENE_BOOTSTRAP": self.bootstrap,
            "SCENE_SECURED": ",".join(f"127.0.0.1:{p}" for p in self.secured.values()),
            "SCENE_MUTUAL": ",".join(f"127.0.0.1:{p}" for p in self.mutual.values()),
            "SCENE_CA": str(self.authority.ca),
            **{f"SCENE_{name.upper()}": str(pem) for name, pem in self.people.items()},
            "SCENE_ISSUER": self.issuer.url,
            "SCENE_TOKEN": self.issuer.token("alice"),
            "SCENE_FORGED": self.issuer.token("alice", forged=True),
            "SCENE_PASSWORD": PASSWORD,
            "SCENE_PREFIX": prefix,
        }

    def furnish(self, prefix: str, features: Sequence[Feature]) -> None:
        """Make and fill the topics of these features."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        wanted = [
            (f, prefix + f.id + ending, filled)
            for f in features
            if f.partitions
            for ending, filled in (
                ("", True),
                *((x, True) for x in f.also),
                *((x, False) for x in (*f.empty, *f.fronts, *(b.target for b in f.route))),
            )
        ]
        new = [NewTopic(name, f.partitions, 3, config=configs_of(f, prefix + f.id, name)) for f, name, _ in wanted]
        for done in admin.create_topics(new, operation_timeout=60).values():
            done.result(60)
        for _, name, _ in wanted:
            wait_for(
                lambda name=name: (
                    (t := self.image.topic_named(name)) and all(p.leader > 0 for p in t.partitions.values())
                ),
                f"a leader of {name}",
            )  # type: ignore[misc]
        for f in features:
            if f.route:
                self.declare_route(prefix + f.id, f)
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "batch.size": 50_000, "log_level": 0}
        )
        for f, name, filled in wanted:
            for i in range(f.filled if filled else 0):
                value = str(i).ljust(f.value_bytes, ".")
                producer.produce(name, value, str(i), i % f.partitions, timestamp=FIRST_MS + 1000 * i)
                producer.poll(0)
        assert producer.flush(60) == 0

    def declare_route(self, topic: str, feature: Feature) -> None:
        """A route with the bindings of the feature, from its topic and with its name. The cluster has no database: the row is in memory."""
        bindings = [{"target": topic + b.target, "match": dict(b.match)} for b in feature.route]
        value = {"route_id": topic, "source": topic, "start": "earliest", "partitions_at_start": feature.partitions}
        self.rows.declare(AccessKind.ROUTE, topic, {**value, "bindings": bindings})

    def leader(self, topic: str) -> int:
        found = self.image.topic_named(topic)
        assert found is not None
        return int(found.partitions[0].leader)

    def data(self, topic: str) -> list[bytes]:
        """The segments of partition 0, where it leads."""
        folder = self.folder / f"data-{self.leader(topic)}" / f"{topic}-0"
        return [p.read_bytes() for p in sorted(folder.glob("*.log"))]


Answer = dict[str, str]
"""`answer` (yes, no, none: the client has no such thing) and, unless yes, `reason`."""


def find_unshown_claims(devcluster: DevCluster, feature: Feature, topic: str, acked: Sequence[str]) -> str:
    """Claims of the program that the log does not show; empty without any."""
    if not feature.partitions:
        return ""
    segments = devcluster.data(topic)
    batches = [h for segment in segments for _, h in records.batches(memoryview(segment)) if not h.is_control]
    for binding in feature.route:
        routed = [
            (r.value or b"").decode()
            for segment in devcluster.data(topic + binding.target)
            for r in records.iterate(memoryview(segment))
        ]
        if routed != [f"v{n}" for n in binding.matching]:
            return f"the log of {binding.target} holds {routed}"
    if feature.codec >= 0 and {h.compression for h in batches} != {feature.codec}:
        return f"the log holds compressions {sorted({h.compression for h in batches})}, not {feature.codec}"
    if feature.segments_min and len(segments) < feature.segments_min:
        return f"the log has {len(segments)} segments only"
    if not (feature.once or feature.kill):
        return ""
    values = [
        (r.value or b"").decode()
        for segment in segments
        for at, header in records.batches(memoryview(segment))
        if not header.is_control
        for r in records.records_of(memoryview(segment), at, header)
    ]
    idempotent = all(h.producer_id >= 0 for h in batches)
    if feature.once and not idempotent:
        return "batches without a producer id"
    if feature.once and values != [str(i) for i in range(500)]:
        return f"{len(values)} records in the log, {len(set(values))} different"
    if feature.kill:
        if len(acked) < KILL_AFTER * 2:
            return f"{len(acked)} records were acknowledged only"
        if lost := set(acked) - set(values):
            return f"{len(lost)} acknowledged records are lost"
        if idempotent and values != sorted(set(values), key=int):
            return "records are doubled or out of order although the producer was idempotent"
    return ""


def configs_of(feature: Feature, topic: str, name: str) -> dict[str, str]:
    """The configs of `name`, which is the topic of the feature, or one beside it."""
    own = feature.fronts.get(name.removeprefix(topic))
    if own is not None:
        return {k: v.format(topic=topic) for k, v in own.items()}
    return {**feature.configs, **({"retention.ms": "-1"} if feature.filled else {})}


class Program:
    """A started client; its lines."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._log = open(log, "ab")  # noqa: SIM115
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            start_new_session=True,
            env={**os.environ, **environment},
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._log.write(line)
            self._log.flush()
            self.lines.put(line.decode(errors="replace").strip())
        self.lines.put(None)

    def end(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(60)


def run_features(
    devcluster: DevCluster,
    name: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    features: Sequence[Feature],
    say: Any = print,
) -> dict[str, Answer]:
    """Feature id -> answer. `name` names the topics, too."""
    prefix = f"{name}."
    devcluster.furnish(prefix, features)
    answers: dict[str, Answer] = {}
    environment = {**environment, **devcluster.environment(prefix)}
    while rest := [f for f in features if f.id not in answers]:
        program = Program([*command, *(f.id for f in rest)], environment, devcluster.folder / f"{name}.log")
        devcluster.programs.append(program.process)
        try:
            _listen(devcluster, program, prefix, {f.id: f for f in rest}, answers, say)
        finally:
            program.end()
        scene.heal_cluster(devcluster)
    return answers


def _listen(
    devcluster: DevCluster,
    program: Program,
    prefix: str,
    features: Mapping[str, Feature],
    answers: dict[str, Answer],
    say: Any,
) -> None:
    """Read a program's lines until it ends or has to be ended; at least one answer more than before."""
    at, acked = next(iter(features)), []
    deadline = time.monotonic() + FEATURE_SECONDS_MAX

    def on_response(answer: str, reason: str = "") -> None:
        answers[at] = {"answer": answer, **({"why": reason} if answer != "yes" else {})}
        say(f"{at:24} {answer} {reason}")

    while True:
        try:
            line = program.lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return on_response("no", f"no answer within {FEATURE_SECONDS_MAX:.0f} s")
        if line is None:
            if at not in answers:
                on_response("no", f"the program ended with {program.process.wait(60)}")
            return None
        word, _, rest = line.partition(" ")
        if word == "begin":
            at, acked, deadline = rest, [], time.monotonic() + FEATURE_SECONDS_MAX
        elif word == "acked":
            acked.append(rest)
            if len(acked) == KILL_AFTER and features[at].kill:
                devcluster.kill(f"broker-{devcluster.leader(prefix + at)}")
        elif word in ("yes", "no", "none") and rest.partition(" ")[0] == at:
            if features[at].kill:
                scene.heal_cluster(devcluster)
            reason = rest.partition(" ")[2]
            if word == "yes":
                reason = find_unshown_claims(devcluster, features[at], prefix + at, acked)
            on_response("no" if reason and word == "yes" else word, reason)
