"""Clients nobody here wrote, feature by feature, against three real brokers. Laws: a "yes" is measured by a program that uses the client as its users
do, and what the log must show is read from the disks; a client that cannot be had here has no column, and the page says why; nothing built or fetched
lies outside `build/clients`. Called by `make clients`; `features` is the table of questions, `columns` who is asked, `runs` how, `page` what is told.
Must not come in: tests of `make test` (those of the page are in tests/unit/foreign)."""
