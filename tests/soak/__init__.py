"""`make soak`: clients of several makes at once, brokers restarted in turn and coordinators killed under them, for minutes; nothing lost, nothing doubled.

`clients` are the programs, one process each, that say what they were told; `ledger` holds their words against each other and against the logs; `__main__`
runs and judges. Law: what a client says of itself is never the proof, but what another read and what lies in the logs.
"""
