"""`weir configure cluster.toml --to FOLDER`: writes the files of each machine of a production cluster to FOLDER/<machine>/.

Invariants: nothing is written for an invalid inventory, and nothing outside of FOLDER. Other files in FOLDER stay. Does not contain: which files
(`files`), copying them to the machines (docs/how-to/deploy-on-several-machines.md).
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from weir.deployment import files
from weir.deployment.inventory import InvalidInventory, parse
from weir_common.files import replace_text

CHECKOUT_DIR = Path(__file__).resolve().parents[2] / "deploy"
TEMPLATES_DIR = CHECKOUT_DIR if CHECKOUT_DIR.is_dir() else Path(__file__).resolve().parents[1] / "deploy"
"""`deploy/` of a checkout, or its copy in an installed wheel (setup.py)."""


def template(path: str) -> str:
    return (TEMPLATES_DIR / path).read_text()


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0, or 1 if the inventory is invalid."""
    parser = argparse.ArgumentParser(
        prog="weir configure", description="Write the files of each machine of a production cluster."
    )
    parser.add_argument("inventory", type=Path, nargs="?", help="cluster.toml")
    parser.add_argument("--to", type=Path, help="folder that gets one folder per machine")
    parser.add_argument("--example", action="store_true", help="print an example of cluster.toml")
    given = parser.parse_args(arguments)
    if given.example:
        print(template("cluster.toml"), end="")
        return 0
    if given.inventory is None or given.to is None:
        parser.error("give cluster.toml and --to FOLDER, or --example")
    try:
        inventory = parse(tomllib.loads(given.inventory.read_text()))
        written = {m.name: files.files_of(inventory, m, template) for m in inventory.machines}
    except (OSError, tomllib.TOMLDecodeError) as e:
        print(f"error: {given.inventory}: {e}", file=sys.stderr)
        return 1
    except InvalidInventory as e:
        print("\n".join(f"error: {line}" for line in str(e).splitlines()), file=sys.stderr)
        return 1
    for machine in inventory.machines:
        root = given.to / machine.name
        for file in written[machine.name]:
            path = root / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_text(path, file.text, mode=file.mode)
        print(f"{root}: {len(written[machine.name])} files, starts {' '.join(files.started_units(machine))}")
    if inventory.security.get("certificates") == "generated":
        # Imported only here: a broker's machine has no cryptography package.
        from weir.deployment.certificates import write_certificates

        renewed = write_certificates(given.to, inventory)
        print(
            f"certificates: new for {', '.join(renewed) or 'no machine'}; keep {given.to / 'ca'} where only operators can read it"
        )
    return 0
