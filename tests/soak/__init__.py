"""`make soak`: several client libraries at once for minutes, while brokers restart in turn and coordinators are killed. No record is lost or duplicated.

`clients` are the programs, one process each, that report confirmed results; `ledger` compares the reports with each other and with the logs; `__main__` runs
and judges. Invariant: a client's own report is never the proof; another client's reads and the logs are.
"""
