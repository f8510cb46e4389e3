"""kcat, driven as in a shell. What it cannot do at all is in LACKS."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from tests.foreign.stage import (
    BOOTSTRAP,
    CA,
    DECIDED,
    DELAYED,
    FIRST_MS,
    MUTUAL,
    PASSWORD,
    PEM,
    ROUTED,
    SECURED,
    delayed_records,
    equal,
    half_records,
    print_acked,
    routed_records,
    run_features,
    wait_until,
)

NO_ADMIN = "kcat has no administration beyond metadata"
LACKS = {
    "transaction-offsets": "not in kcat",
    "fencing": "a transaction of kcat's ends with its process",
    "pause": "not in kcat",
    "assignor-sticky": "librdkafka has no eager sticky assignor",
    "new-protocol": "its librdkafka is older than KIP-848",
    "oauth": "kcat cannot be given a token, and Debian builds its librdkafka without the libcurl that would fetch one",
    **dict.fromkeys(
        (
            "topics",
            "configs",
            "groups",
            "group-offsets",
            "list-offsets",
            "delete-records",
            "log-dirs",
            "transactions-admin",
            "scram",
            "quotas",
            "reassign",
            "elect",
            "acls",
        ),
        NO_ADMIN,
    ),
    "streams": "Java only",
    "streams-group": "Java only",
    "share-letters": "its librdkafka is older than KIP-932",
}
CLIENT_OPTIONS = ("-b", BOOTSTRAP)


def client_options(at: str, protocol: str, options: Mapping[str, str]) -> Sequence[str]:
    every = {"security.protocol": protocol, "ssl.ca.location": CA, **options}
    return ("-b", at, *(x for k, v in every.items() for x in ("-X", f"{k}={v}")))


def secured_options(password: str = PASSWORD) -> Sequence[str]:
    return client_options(
        SECURED, "SASL_SSL", {"sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": password}
    )


def certificate_options(user: str) -> Sequence[str]:
    return client_options(MUTUAL, "SSL", {"ssl.certificate.location": PEM[user], "ssl.key.location": PEM[user]})


def kcat(
    *arguments: str, given: bytes = b"", client_options: Sequence[str] = CLIENT_OPTIONS, fine: bool = True
) -> bytes:
    done = subprocess.run(
        ["kcat", *client_options, *arguments], input=given, capture_output=True, timeout=60, check=False
    )
    sys.stderr.write(done.stderr.decode(errors="replace"))
    if fine:
        equal(done.returncode, 0)
    return done.stdout if fine else done.stderr


def numbers(n: int) -> list[str]:
    return [str(i) for i in range(n)]


def send(name: str, values: Sequence[str], *more: str, client_options: Sequence[str] = CLIENT_OPTIONS) -> None:
    kcat("-P", "-t", name, "-p", "0", *more, given="\n".join(values).encode(), client_options=client_options)


def read(name: str, *more: str) -> list[str]:
    return kcat("-C", "-t", name, "-p", "0", "-o", "beginning", "-e", "-q", *more).decode().splitlines()


def acks(wanted: str) -> Callable[[str], None]:
    def feature(name: str) -> None:
        send(name, numbers(100), "-X", f"acks={wanted}")
        equal(read(name), numbers(100))

    return feature


def codec(kind: str) -> Callable[[str], None]:
    def feature(name: str) -> None:
        wanted = [str(i) * 20 for i in range(500)]
        send(name, wanted, "-z", kind)
        equal(read(name), wanted)

    return feature


acks_0, acks_1, acks_all = acks("0"), acks("1"), acks("all")
gzip, snappy, lz4, zstd = codec("gzip"), codec("snappy"), codec("lz4"), codec("zstd")


def headers(name: str) -> None:
    send(name, ["v"], "-H", "a=1", "-H", "a=2", "-H", "empty=")
    equal(json.loads(read(name, "-J")[0])["headers"], ["a", "1", "a", "2", "empty", ""])


def send_one_by_one(front: str, written: Sequence[tuple[bytes, bytes | None, list[tuple[str, bytes]]]]) -> None:
    """One process per record: the headers are options. -Z sends an empty value as null."""
    for key, value, headers in written:
        options = [x for name, text in headers for x in ("-H", f"{name}={text.decode()}")]
        kcat("-P", "-t", front, "-p", "0", "-K", ":", "-Z", *options, given=key + b":" + (value or b""))


def delayed(name: str) -> None:
    began = time.time()
    send_one_by_one(f"{name}.delay", delayed_records(int(began * 1000)))
    wait_until(lambda: read(name) == DELAYED, "the delayed records")
    equal(time.time() - began >= 6, True)


def half(name: str) -> None:
    send_one_by_one(f"{name}.half", half_records())
    wait_until(lambda: read(name) == DECIDED, "the decided records")


def routes(name: str) -> None:
    written = routed_records()
    send_one_by_one(name, written)
    for suffix, matching in ROUTED.items():
        wait_until(lambda topic=name + suffix, count=len(matching): len(read(topic)) >= count, "the routed records")  # type: ignore[misc]
        found = [(m["key"], m["payload"], m["headers"]) for m in map(json.loads, read(name + suffix, "-J"))]
        wanted = [written[n] for n in matching]
        equal(found, [(k.decode(), (v or b"").decode(), flatten_headers(headers)) for k, v, headers in wanted])


def flatten_headers(headers: Sequence[tuple[str, bytes]]) -> list[str]:
    """Headers as `-J` prints them: names and values in one list."""
    return [text for name, value in headers for text in (name, value.decode())]


def nulls(name: str) -> None:
    send(name, ["v"])
    send(name, ["k:"], "-K", ":", "-Z")
    equal([(m["key"], m["payload"]) for m in map(json.loads, read(name, "-J"))], [(None, "v"), ("k", None)])


def big(name: str) -> None:
    wanted = "".join(chr(33 + i % 90) for i in range(1_000_000))
    send(name, [wanted], "-X", "message.max.bytes=1100000")
    equal(read(name) == [wanted], True)


def too_large(name: str) -> None:
    reported = kcat("-P", "-t", name, "-p", "0", given=b"x" * 500_000, fine=False)
    equal(b"Message size too large" in reported, True)
    send(name, ["small"])
    equal(read(name), ["small"])


def idempotent(name: str) -> None:
    send(name, numbers(500), "-X", "enable.idempotence=true", "-X", "batch.num.messages=10")


def transactions(name: str) -> None:
    send(name, ["a1", "a2"], "-X", f"transactional.id={name}")
    open_one = subprocess.Popen(
        ["kcat", *CLIENT_OPTIONS, "-P", "-t", name, "-p", "0", "-X", f"transactional.id={name}", "-X", "linger.ms=0"],
        stdin=subprocess.PIPE,
    )
    assert open_one.stdin is not None
    open_one.stdin.write(b"b\n" * 20_000)  # it reads its input in blocks
    open_one.stdin.flush()
    everything = ("-X", "isolation.level=read_uncommitted")
    wait_until(lambda: "b" in read(name, *everything), "the open transaction's records")
    open_one.kill()  # never committed: the next one of its id aborts it
    open_one.wait()
    send(name, ["c1"], "-X", f"transactional.id={name}")
    wait_until(lambda: read(name) == ["a1", "a2", "c1"], "the commits")
    equal(set(read(name, *everything)), {"a1", "a2", "b", "c1"})


def leader_killed(name: str) -> None:
    """kcat tells nothing of single records: what it was given counts as acknowledged once it has ended well."""
    process = subprocess.Popen(
        ["kcat", *CLIENT_OPTIONS, "-P", "-t", name, "-p", "0", "-X", "enable.idempotence=true", "-X", "linger.ms=0"],
        stdin=subprocess.PIPE,
    )
    assert process.stdin is not None
    for value in numbers(600):
        process.stdin.write(value.encode() + b"\n")
        process.stdin.flush()
        if int(value) < 100:
            time.sleep(0.005)
        if int(value) == 100:
            for n in numbers(100):  # so that the leader is killed now
                print_acked(n)
        time.sleep(0.005)
    process.stdin.close()
    equal(process.wait(90), 0)
    for n in numbers(600)[100:]:
        print_acked(n)


def majority_acks(name: str) -> None:
    leader_killed(name)
    equal(read(name), numbers(600))


def from_start(name: str) -> None:
    equal([v.rstrip(".") for v in read(name)], numbers(3000))


class Member:
    """A kcat in balanced mode, read through its log."""

    def __init__(self, group: str, name: str, *more: str) -> None:
        self.process = subprocess.Popen(
            [
                "kcat",
                *CLIENT_OPTIONS,
                "-G",
                group,
                "-X",
                "auto.offset.reset=earliest",
                *more,
                "-f",
                "%p %s\\n",
                "-u",
                name,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.seen: set[str] = set()
        self.reported = b""
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            import os

            os.set_blocking(stream.fileno(), False)

    def listen(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.seen.update(
            line.split()[1].decode()
            for line in (self.process.stdout.read() or b"").splitlines()
            if len(line.split()) == 2
        )
        self.reported += self.process.stderr.read() or b""

    def owned_partitions(self) -> int:
        """How many partitions, by what it last said."""
        self.listen()
        last = [line for line in self.reported.split(b"\n") if b"assigned:" in line or b"revoked:" in line]
        return last[-1].count(b"[") if last and b"assigned:" in last[-1] else 0

    def leave(self) -> None:
        self.process.terminate()
        self.process.wait(30)


def members(*more: str) -> Callable[[str], None]:
    def feature(name: str) -> None:
        one = Member(name, name, *more)
        wait_until(lambda: one.owned_partitions() == 4, "one member to own all")
        two = Member(name, name, *more)
        wait_until(lambda: (one.owned_partitions(), two.owned_partitions()) == (2, 2), "two members to share")
        wait_until(
            lambda: one.owned_partitions() and two.owned_partitions() and len(one.seen | two.seen) == 400, "all records"
        )
        two.leave()
        wait_until(lambda: one.owned_partitions() == 4, "the one that stayed to own all again")
        one.leave()

    return feature


group = members()
assignor_range = members("-X", "partition.assignment.strategy=range")
assignor_roundrobin = members("-X", "partition.assignment.strategy=roundrobin")


def cooperated(name: str) -> None:
    """kcat tells of incremental assignments one by one."""
    options = ("-X", "partition.assignment.strategy=cooperative-sticky")
    one = Member(name, name, *options)
    wait_until(lambda: one.listen() or one.reported.count(b"[") >= 4, "one member to own all")
    two = Member(name, name, *options)
    wait_until(lambda: one.listen() or two.listen() or two.reported.count(b"[") >= 2, "two members to share")
    wait_until(lambda: one.listen() or two.listen() or len(one.seen | two.seen) == 400, "all records")
    two.leave()
    one.leave()


assignor_cooperative = cooperated


def static(name: str) -> None:
    options = ("-X", "session.timeout.ms=30000", "-X")
    one = Member(name, name, *options, "group.instance.id=one")
    wait_until(lambda: one.owned_partitions() == 4, "one member to own all")
    two = Member(name, name, *options, "group.instance.id=two")
    wait_until(lambda: (one.owned_partitions(), two.owned_partitions()) == (2, 2), "two members to share")
    before = one.reported
    two.leave()
    again = Member(name, name, *options, "group.instance.id=two")
    wait_until(lambda: again.owned_partitions() == 2, "the second member to have its partitions again")
    equal((one.listen(), one.reported), (None, before))
    again.leave()
    one.leave()


def commits(name: str) -> None:
    options = ("-G", name, "-X", "auto.offset.reset=earliest", "-q")
    equal(kcat(*options, "-c", "40", name).decode().split(), numbers(40))
    equal(kcat(*options, "-c", "1", name).decode().split(), ["40"])


def resets(name: str) -> None:
    equal(kcat("-G", name + "-e", "-X", "auto.offset.reset=earliest", "-q", "-c", "1", name).decode().split(), ["0"])
    equal(read(name, "-X", "auto.offset.reset=earliest", "-c", "1"), ["0"])
    beyond = kcat("-C", "-t", name, "-p", "0", "-o", "10000", "-X", "auto.offset.reset=earliest", "-q", "-c", "1")
    equal(beyond.decode().split(), ["0"])
    none = kcat(
        "-C", "-t", name, "-p", "0", "-o", "10000", "-X", "topic.auto.offset.reset=error", "-q", "-c", "1", fine=False
    )
    equal(b"out of range" in none.lower(), True)
    equal(kcat("-C", "-t", name, "-p", "0", "-o", "-1", "-q", "-e").decode().split(), ["99"])


def timestamps(name: str) -> None:
    equal(kcat("-C", "-t", name, "-p", "0", "-o", f"s@{FIRST_MS + 49_500}", "-q", "-c", "1").decode().split(), ["50"])
    equal(kcat("-Q", "-t", f"{name}:0:{FIRST_MS + 50_000}").decode().split()[-1], "50")


def pattern(name: str) -> None:
    found = kcat(
        "-G",
        name,
        "-X",
        "auto.offset.reset=earliest",
        "-q",
        "-c",
        "100",
        "-f",
        "%t\\n",
        f"^{name.replace('.', chr(92) + '.')}.*",
    )
    equal(set(found.decode().split()), {name, name + "-two"})


def cluster(_: str) -> None:
    reported = json.loads(kcat("-L", "-J"))
    equal(sorted(b["id"] for b in reported["brokers"]), [1, 2, 3])
    equal(reported["controllerid"] in (1, 2, 3), True)


def apply_registrations(name: str, by: Sequence[str]) -> None:
    send(name, numbers(100), client_options=by)
    found = kcat("-G", name, "-X", "auto.offset.reset=earliest", "-q", "-c", "100", name, client_options=by)
    equal(found.decode().split(), numbers(100))


def is_rejected(by: Sequence[str]) -> None:
    equal(b"authentication" in kcat("-L", "-m", "10", client_options=by, fine=False).lower(), True)


def scram_tls(name: str) -> None:
    apply_registrations(name, secured_options())


def wrong_password(_: str) -> None:
    is_rejected(secured_options("wrong"))


def mutual_tls(name: str) -> None:
    apply_registrations(name, certificate_options("alice"))
    reported = kcat("-P", "-t", name, "-p", "0", given=b"no", client_options=certificate_options("bob"), fine=False)
    equal(b"authorization failed" in reported.lower(), True)


if __name__ == "__main__":
    run_features(LACKS, sys.modules["__main__"])
