"""Third-party clients, feature by feature, against three real brokers: `make clients`.

Invariants: a "yes" is measured by a program that uses the client like its users do; the required content of the log is read from the disks; a client that
is not available here has no column, and the page has the reason; everything built or fetched is in `build/clients`. `features` lists the features,
`columns` the clients, `runs` runs the programs, `page` writes the page. Tests of the page are in tests/unit/foreign.
"""
