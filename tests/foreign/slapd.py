"""OpenLDAP's server on loopback with a small directory: Debian's package slapd, which `make tools` installs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ldap3 import MODIFY_DELETE, Connection
from ldap3.core.exceptions import LDAPNoSuchObjectResult

from tests.cluster.local import free_port, wait_for

SLAPD = "/usr/sbin/slapd"
ADMIN, PASSWORD = "cn=admin,dc=example,dc=org", "of the admin"
READER = "cn=weir,dc=example,dc=org"
PEOPLE, GROUPS = "ou=people,dc=example,dc=org", "ou=groups,dc=example,dc=org"
CONFIG = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {folder}/pid
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{reader}" read by * none
database mdb
suffix "dc=example,dc=org"
rootdn "{admin}"
rootpw "{password}"
directory {folder}/data
"""


class Directory:
    def __init__(self, folder: Path) -> None:
        (folder / "data").mkdir(parents=True)
        config = folder / "slapd.conf"
        config.write_text(CONFIG.format(folder=folder, reader=READER, admin=ADMIN, password=PASSWORD))
        self.url = f"ldap://127.0.0.1:{free_port()}"
        self._log = open(folder / "log", "wb")  # noqa: SIM115  closed with the process
        command = [SLAPD, "-h", f"{self.url}/", "-f", str(config), "-d", "0"]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        wait_for(self._answers, f"slapd; see {folder}/log", 60)
        self._admin = Connection(self.url, user=ADMIN, password=PASSWORD, auto_bind=True, raise_exceptions=True)
        self.add("dc=example,dc=org", ["dcObject", "organization"], o="Example", dc="example")
        self.add(READER, ["organizationalRole", "simpleSecurityObject"], cn="weir", userPassword=PASSWORD)
        for base in (PEOPLE, GROUPS):
            self.add(base, ["organizationalUnit"], ou=base.partition(",")[0].removeprefix("ou="))

    def _answers(self) -> bool:
        assert self._process.poll() is None, "slapd ended"
        try:
            return bool(Connection(self.url).bind())
        except Exception:
            return False

    def add(self, dn: str, classes: list[str], **attributes: str | list[str]) -> None:
        self._admin.add(dn, classes, attributes)

    def add_user(self, name: str, password: str) -> str:
        dn = f"uid={name},{PEOPLE}"
        self.add(dn, ["inetOrgPerson"], cn=name, sn=name, mail=f"{name}@example.org", userPassword=password)
        return dn

    def add_group(self, name: str, *members: str) -> None:
        self.add(f"cn={name},{GROUPS}", ["groupOfNames"], member=list(members))

    def delete(self, dn: str) -> None:
        """Without effect if there is no such entry."""
        with suppress(LDAPNoSuchObjectResult):
            self._admin.delete(dn)

    def leave(self, group: str, member: str) -> None:
        self._admin.modify(f"cn={group},{GROUPS}", {"member": [(MODIFY_DELETE, [member])]})

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()


@contextmanager
def directory(folder: Path) -> Iterator[Directory]:
    running = Directory(folder)
    try:
        yield running
    finally:
        running.close()
