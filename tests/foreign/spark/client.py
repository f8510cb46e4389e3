"""Spark's own `kafka` source and sink. SPARK_JARS names the jars."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.foreign.stage import BOOTSTRAP, CA, FIRST_MS, PASSWORD, SECURED, equal, run_features

PLAIN = {"kafka.bootstrap.servers": BOOTSTRAP}
LOGIN = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{PASSWORD}";'
CLIENT_OPTIONS = {
    "kafka.bootstrap.servers": SECURED,
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": LOGIN,
    "kafka.ssl.truststore.type": "PEM",
    "kafka.ssl.truststore.location": CA,
}
_session: list[SparkSession] = []


def spark() -> SparkSession:
    if not _session:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master("local[2]").config("spark.jars", os.environ["SPARK_JARS"])  # type: ignore[attr-defined]
        for key, value in {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
        }.items():
            builder = builder.config(key, value)
        _session.append(builder.getOrCreate())
        _session[0].sparkContext.setLogLevel("ERROR")
    return _session[0]


def rows(topic: str, client_options: dict[str, str] = PLAIN, **options: Any) -> list[Any]:
    settings = {
        **client_options,
        "subscribe": topic,
        **{k.replace("kafka_isolation_level", "kafka.isolation.level"): str(v) for k, v in options.items()},
    }
    return spark().read.format("kafka").options(**settings).load().orderBy("partition", "offset").collect()


def values(found: list[Any]) -> list[str]:
    return [bytes(r.value).decode() for r in found]


def write_records(
    topic: str, records: list[tuple[str | None, str | None]], client_options: dict[str, str] = PLAIN
) -> None:
    frame = spark().createDataFrame(records, "key string, value string").coalesce(1)
    frame.write.format("kafka").options(**client_options, topic=topic).save()


def spark_read(topic: str) -> None:
    found = rows(topic, includeHeaders=True)
    wanted = [(str(i), i % 2, i // 2, FIRST_MS + 1000 * i) for i in [*range(0, 200, 2), *range(1, 200, 2)]]
    equal(
        [(bytes(r.value).decode(), r.partition, r.offset, int(r.timestamp.timestamp() * 1000)) for r in found], wanted
    )
    equal({r.topic for r in found} | {r.headers for r in found}, {topic, None})


def spark_read_range(topic: str) -> None:
    part = rows(
        topic,
        startingOffsets=json.dumps({topic: {"0": 10, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": 20, "1": 5}}),
    )
    equal([(r.partition, r.offset) for r in part], [*((0, o) for o in range(10, 20)), *((1, o) for o in range(5))])
    since = rows(topic, startingTimestamp=FIRST_MS + 150_000)
    equal(sorted(map(int, values(since))), list(range(150, 200)))


def stream_topic(topic: str, **options: str) -> DataFrame:
    return (
        spark()
        .readStream.format("kafka")
        .options(**PLAIN, subscribe=topic, startingOffsets="earliest", **options)
        .load()
    )


def spark_stream(topic: str) -> None:
    seen: list[str] = []
    batches: list[int] = []

    def take(frame: DataFrame, number: int) -> None:
        batches.append(number)
        seen.extend(values(frame.select("value").collect()))

    with tempfile.TemporaryDirectory() as folder:

        def run() -> None:
            stream = (
                stream_topic(topic, maxOffsetsPerTrigger="60")
                .writeStream.foreachBatch(take)
                .option("checkpointLocation", folder)
            )
            equal(stream.trigger(availableNow=True).start().awaitTermination(120), True)

        run()
        equal(sorted(map(int, seen)), list(range(200)))
        equal(len(batches) >= 3, True)
        producer = Producer({"bootstrap.servers": BOOTSTRAP})
        producer.produce(topic, b"200", partition=0)
        equal(producer.flush(60), 0)
        run()
    equal(sorted(map(int, seen)), list(range(201)))


def spark_write(topic: str) -> None:
    frame = spark().createDataFrame([("k", "v"), (None, "w"), ("gone", None)], "key string, value string").coalesce(1)
    header = F.array(F.struct(F.lit("a").alias("key"), F.lit("1").cast("binary").alias("value")))
    frame.withColumn("headers", header).write.format("kafka").options(
        **PLAIN, topic=topic, includeHeaders="true"
    ).save()
    found = rows(topic, includeHeaders=True)
    text = lambda b: None if b is None else bytes(b).decode()  # noqa: E731
    equal([(text(r.key), text(r.value)) for r in found], [("k", "v"), (None, "w"), ("gone", None)])
    equal({(h.key, bytes(h.value)) for r in found for h in r.headers}, {("a", b"1")})


def spark_copy(topic: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sink = (
            stream_topic(topic)
            .select("key", "value")
            .writeStream.format("kafka")
            .options(**PLAIN, topic=topic + "-out")
        )
        query = sink.option("checkpointLocation", folder).trigger(availableNow=True).start()
        equal(query.awaitTermination(120), True)
    equal({int(v) for v in values(rows(topic + "-out"))}, set(range(200)))


def spark_committed(topic: str) -> None:
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": topic})
    producer.init_transactions(60)
    for value, commit in (("a", True), ("no", False), ("b", True)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        if commit:
            producer.commit_transaction(60)
        else:
            equal(producer.flush(60), 0)
            producer.abort_transaction(60)
    equal(values(rows(topic, kafka_isolation_level="read_committed")), ["a", "b"])
    equal(values(rows(topic, kafka_isolation_level="read_uncommitted")), ["a", "no", "b"])


def spark_tls(topic: str) -> None:
    write_records(topic, [("k", str(i)) for i in range(100)], CLIENT_OPTIONS)
    equal(values(rows(topic, CLIENT_OPTIONS)), [str(i) for i in range(100)])


if __name__ == "__main__":
    run_features({}, sys.modules["__main__"])
