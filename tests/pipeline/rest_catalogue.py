"""Iceberg's REST catalogue for tests (the Java classes of Apache Iceberg, from Maven) as a process on loopback. Needs a JDK: it compiles one file.

Does not contain tables. Its warehouse is a folder.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from bench.peer.fetch import copy_dependencies
from tests.cluster.local import ROOT, free_port, wait_for
from weir_common.java import find_java

ICEBERG, JETTY = "1.11.0", "12.1.5"
JARS = (
    f"org.apache.iceberg:iceberg-core:{ICEBERG}",
    f"org.apache.iceberg:iceberg-core:{ICEBERG}:tests",
    f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{JETTY}",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)


@contextmanager
def rest_catalogue(folder: Path) -> Iterator[dict[str, str]]:
    """The environment of a lake with this catalogue, its tables in `folder`. Raises Absent without the jars."""
    lib = copy_dependencies(ROOT / "build" / "peers" / f"iceberg-rest-{ICEBERG}", JARS)
    # Hadoop's file systems and the log library are those of Spark.
    spark = Path(pyspark.__file__).parent / "jars"
    hadoop = [str(p) for name in ("hadoop-client-*", "log4j-*") for p in spark.glob(f"{name}.jar")]
    port, warehouse = free_port(), folder / "warehouse"
    warehouse.mkdir(parents=True)
    source = Path(__file__).parent / "java" / "RestCatalogue.java"
    command = [str(find_java()), "-Xmx256m", "-XX:+UseSerialGC", "-cp", ":".join([f"{lib}/*", *hadoop]), str(source)]
    with open(folder / "rest.log", "ab") as log:
        server = subprocess.Popen(
            [*command, str(port), str(folder / "rest.db"), f"file://{warehouse}"], stdout=log, stderr=log
        )
    try:
        wait_for(lambda: _listens(port, server), "the REST catalogue")
        yield {"WEIR_LAKE_CATALOG": f"http://127.0.0.1:{port}", "WEIR_LAKE_WAREHOUSE": str(warehouse)}
    finally:
        server.kill()
        server.wait()


def _listens(port: int, server: subprocess.Popen[bytes]) -> bool:
    assert server.poll() is None, "the REST catalogue ended, see rest.log"
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0
