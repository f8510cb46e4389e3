"""Keys and certificates of the machines of a secured cluster, by an authority in FOLDER/ca, which `weir configure` makes.

Invariants: an existing authority is not replaced, and a certificate that is valid for its machine for at least another month is not replaced either.
Only FOLDER/ca contains the key of the authority. Does not contain: certificates of an operator's own authority, which are copied manually
(`certificates = "own"`).
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509

from controlplane.devcluster.pki import Authority
from weir.deployment.inventory import Inventory, Machine
from weir.deployment.security import CA_PEM, MACHINE_PEM
from weir_common.files import replace_text

AUTHORITY_FOLDER = "ca"
VALID_DAYS_MIN = 30
KEY_MODE = 0o640
"""Mode of a file with a private key. The guide gives /etc/weir to the group of the processes."""


def write_certificates(folder: Path, inventory: Inventory) -> list[str]:
    """Write the certificate of each machine to folder/<machine>. Returns the machines with a new one."""
    authority = Authority(folder / AUTHORITY_FOLDER, "Weir cluster certificate authority")
    ca = authority.ca.read_bytes()
    renewed = []
    for machine in inventory.machines:
        path = folder / machine.name / MACHINE_PEM.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(folder / machine.name / CA_PEM.lstrip("/"), ca.decode(), mode=0o644)
        if not _is_usable(path, machine, x509.load_pem_x509_certificate(ca)):
            replace_text(path, authority.sign(machine.name, (machine.name, machine.address)), mode=KEY_MODE)
            renewed.append(machine.name)
    return renewed


def _is_usable(path: Path, machine: Machine, ca: x509.Certificate) -> bool:
    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
        found.verify_directly_issued_by(ca)
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    until = dt.datetime.now(dt.UTC) + dt.timedelta(days=VALID_DAYS_MIN)
    address = ipaddress.ip_address(machine.address)
    return found.not_valid_after_utc > until and address in names.get_values_for_type(x509.IPAddress)
