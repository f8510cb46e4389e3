"""Spark sessions of the pipeline: on loopback, UTC, small. The only module that starts Spark."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from pipeline.source import NAME, KafkaSource
from weir_common.java import java_home


def start(name: str, *, master: str = "local[*]", driver_memory: str = "1g", work: Path | None = None) -> SparkSession:
    """A Spark session with the source `weir` registered. `work`: directory for Spark's temporary files. `driver_memory`: as in Spark, for example `1g`.
    Raises JavaMissing."""
    os.environ["JAVA_HOME"] = str(java_home())
    # Workers must use this Python interpreter, with this package on their path.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    root = str(Path(__file__).resolve().parents[1])
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    os.environ["PYTHONPATH"] = os.pathsep.join([root, *(p for p in paths if p != root)])
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.appName(name)
        .master(master)
        .config("spark.driver.memory", driver_memory)
        .config(
            "spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dderby.system.home=/nonexistent"
        )
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .config("spark.sql.catalogImplementation", "in-memory")
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .config("spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    )
    if master.startswith("local"):
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
        builder = builder.config("spark.local.dir", str(work)).config(
            "spark.sql.warehouse.dir", str(work / "warehouse")
        )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    spark.dataSource.register(KafkaSource)
    return spark


def kafka_stream(spark: SparkSession, options: dict[str, str], *, native: bool = False) -> DataFrame:
    """A stream of records. `native` uses Spark's own `kafka` source, whose jars must be installed. Columns and option names are the same."""
    reader: DataStreamReader = spark.readStream.format("kafka" if native else NAME)
    return reader.options(**options).load()
