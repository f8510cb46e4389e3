"""A producer of half messages that the test kills between two decisions: `python -m tests.cluster.crashing_half_producer BOOTSTRAP TOPIC`.

It writes 200 half messages and begins to commit them. It prints `half` after the 121st commit and waits.
"""

import sys

from tests.cluster.test_half_messages import HalfMessageProducer

WRITTEN = 200
COMMITTED = 121


def main(bootstrap: str, topic: str) -> None:
    producer = HalfMessageProducer(bootstrap, topic)
    for i in range(WRITTEN):
        producer.write(f"x{i}")
    producer.flush()
    for i in range(COMMITTED):
        producer.write(f"x{i}", "commit")
    producer.flush()
    print("half", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
