"""An S3 server of moto as a process on loopback, with one bucket. Does not contain tables."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from tests.cluster.local import free_port, wait_for

BUCKET, REGION = "lake", "us-east-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION}


@contextmanager
def s3_server(log: Path, before: Sequence[str] = ()) -> Iterator[str]:
    """The endpoint of the server, with BUCKET. `before`: of its command, for example `nice`."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    with open(log, "ab") as out:
        server = subprocess.Popen(
            [*before, sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=out,
            stderr=out,
            env={**os.environ, **CREDENTIALS},
        )
    try:
        wait_for(lambda: _has_bucket(endpoint), "the S3 server")
        yield endpoint
    finally:
        server.kill()
        server.wait()


@contextmanager
def s3_warehouse(log: Path) -> Iterator[dict[str, str]]:
    """The environment of a lake whose warehouse is on the server."""
    with s3_server(log) as endpoint:
        yield {
            **CREDENTIALS,
            "WEIR_LAKE_WAREHOUSE": f"s3://{BUCKET}/warehouse",
            "WEIR_LAKE_OPTIONS": f"s3.endpoint={endpoint},s3.region={REGION}",
        }


def _has_bucket(endpoint: str) -> bool:
    """Create the bucket. False while the server does not respond."""
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name=REGION, aws_access_key_id="test", aws_secret_access_key="test"
    )
    try:
        client.create_bucket(Bucket=BUCKET)
    except (BotoCoreError, ClientError):
        return False
    return True
