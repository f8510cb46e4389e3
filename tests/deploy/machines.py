"""Three machines of a production cluster on this one: each has a network namespace with an address of its own, and /etc/weir, /var/lib/weir and
/opt/weir of its own, as mounts that only its processes see.

The files are those of `weir configure` for deploy/cluster.toml, with the addresses of the namespaces. All machines share one virtual environment per version of the
wheel; each has a link `current` of its own. Its dependencies are those of this Python: a rehearsal tests the files and the program, not a package registry. Debian's PostgreSQL, Redis
and nginx run with the generated files. Requires root.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from tests.cluster.local import ROOT, wait_for
from tests.deploy.units import RunningUnit, Unit, parse, read_environment
from tests.faults.namespaces import SUBNET, Network
from tests.pki import Authority
from tests.postgres import programs
from weir.deployment import command
from weir.deployment.inventory import PLACEHOLDER
from weir_common.java import java_home

MOUNTS = ("/etc/weir", "/var/lib/weir", "/opt/weir")
ENTER = " && ".join(f'mount --bind "$ROOT{m}" {m}' for m in MOUNTS) + ' && unset ROOT && cd "$1" && shift && exec "$@"'
EXAMPLE_SUBNET = "10.0.0"
WITH_ENTRY_POINTS = ("celery", "uvicorn")
"""Dependencies whose programs the units start."""


def missing_programs() -> list[str]:
    """Programs that the rehearsal needs and that are not installed."""
    return [p for p in ("redis-server", "nginx", "ip", "nft", "openssl", "java") if shutil.which(p) is None]


PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


def pins() -> list[str]:
    """Requirements of the dependencies whose programs the units start, in the versions of this Python."""
    return [f"{name}=={metadata.version(name)}" for name in WITH_ENTRY_POINTS]


def build_wheel(wheels: Path, source: Path = ROOT) -> tuple[Path, str]:
    """(the wheel of this checkout, its version)"""
    subprocess.run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(source)], check=True)
    (wheel,) = wheels.glob("weir-*.whl")
    return wheel, wheel.name.split("-")[1]


def install(folder: Path, source: Path = ROOT) -> Path:
    """A virtual environment at folder/opt-weir/<version> with the wheel of this source. The first one of the folder is `current`."""
    wheel, version = build_wheel(folder / f"wheels-{source.name}", source)
    opt = folder / "opt-weir"
    subprocess.run([sys.executable, "-m", "venv", "--copies", str(opt / version)], check=True)
    python = ["--python", str(opt / version / "bin/python")]
    subprocess.run([*PIP, *python, "install", "--no-deps", str(wheel), *pins()], check=True)
    site = next((opt / version / "lib").glob("python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    if not (opt / "current").is_symlink():
        (opt / "current").symlink_to(version)
    # The programs of the environment name their Python by its path, as in /opt/weir.
    for script in (opt / version / "bin").iterdir():
        if script.is_file() and script.read_bytes()[:2] == b"#!":
            script.write_text(script.read_text().replace(str(opt), "/opt/weir"))
    return opt


@contextlib.contextmanager
def mount_points() -> Iterator[None]:
    """Empty directories where this machine has none. They are removed at the end."""
    made = [Path(m) for m in MOUNTS if not Path(m).exists()]
    for path in made:
        path.mkdir()
    try:
        yield
    finally:
        for path in made:
            path.rmdir()


class RehearsedMachine:
    """`root`: the files that `weir configure` wrote for it, and its state. `own_processes`: units that see their own processes only, as on a machine
    of their own; all of them end with the first."""

    def __init__(
        self,
        name: str,
        number: int,
        root: Path,
        opt: Path,
        network: Network,
        logs: Path,
        own_processes: frozenset[str] = frozenset(),
    ) -> None:
        self.name, self.number, self.root, self._logs = name, number, root, logs
        self.address = f"{SUBNET}.{number}"
        for mount in MOUNTS:
            (root / mount.lstrip("/")).mkdir(parents=True, exist_ok=True)
        for version in opt.iterdir():
            target = version.readlink() if version.is_symlink() else version
            (root / "opt/weir" / version.name).symlink_to(target)
        self._outside = [*network.command_prefix(number), "env", f"ROOT={root}", "unshare"]
        self._enter = ["--mount", "--propagation", "private", "sh", "-c", ENTER, "sh"]
        self.prefix = [*self._outside, *self._enter]
        self._own_processes = own_processes
        self.units = {u.name: self._running(u) for u in self._units()}
        self.servers: dict[str, subprocess.Popen[bytes]] = {}

    def _units(self) -> list[Unit]:
        """In the order of etc/weir/units, which is that of starting."""
        found = []
        for name in (self.root / "etc/weir/units").read_text().split():
            stem, _, instance = name.removesuffix(".service").partition("@")
            file = f"{stem}@.service" if instance else name
            found.append(parse(self.root / "etc/systemd/system" / file, instance))
        return found

    def _running(self, unit: Unit) -> RunningUnit:
        log = self._logs / f"{self.name}-{unit.name.removesuffix('.service')}.log"
        separate = ["--pid", "--fork", "--kill-child", "--mount-proc"] if unit.name in self._own_processes else []
        prefix = [*self._outside, *separate, *self._enter]
        return RunningUnit(unit, prefix, self.root, log, {"JAVA_HOME": str(java_home())})

    def use(self, version: str) -> None:
        """The link `current` of this machine, as `ln -sfn`."""
        new = self.root / "opt/weir/current.new"
        new.symlink_to(version)
        new.replace(self.root / "opt/weir/current")

    def copy(self, out: Path) -> None:
        """The files of another `weir configure`, as `rsync -rp`. A unit is read again, as by `systemctl daemon-reload`, when it is stopped."""
        subprocess.run(["cp", "-r", "--preserve=mode", f"{out}/.", f"{self.root}/"], check=True)

    def reload_unit(self, name: str) -> RunningUnit:
        """The stopped unit as its file says now."""
        self.units[name] = next(self._running(u) for u in self._units() if u.name == name)
        return self.units[name]

    def unit(self, prefix: str) -> RunningUnit | None:
        return next((u for name, u in self.units.items() if name.startswith(prefix)), None)

    def run(self, *words: str, **environment: str) -> str:
        """The output of a command on this machine, with the environment of its control plane."""
        file = self.root / "etc/weir/weir.env"
        values = read_environment(file.read_text()) if file.exists() else {}
        done = subprocess.run(
            [*self.prefix, "/var/lib/weir", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **values, **environment},
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def server(self, name: str, *words: str) -> None:
        with (self._logs / f"{self.name}-{name}.log").open("ab") as log:
            self.servers[name] = subprocess.Popen(
                [*self.prefix, "/", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    # -- packages of Debian --------------------------------------------------------------------------------------------
    def start_redis(self) -> None:
        self.server("redis", "redis-server", str(self.root / "etc/redis/weir.conf"), "--dir", str(self.root))

    def start_postgresql(self, password: str, authority: Authority) -> None:
        """A new database cluster with the generated settings; Debian's package makes the same at its installation, with a certificate."""
        data, bin_folder = self.root / "postgresql", programs()
        as_user = ["runuser", "-u", "postgres", "--"]
        word = self.root / "password"
        data.mkdir()
        word.write_text(password)
        for path in (data, word):
            shutil.chown(path, "postgres", "postgres")
        run_quietly(
            [
                *as_user,
                str(bin_folder / "initdb"),
                "-D",
                str(data),
                "-U",
                "weir",
                "-A",
                "scram-sha-256",
                f"--pwfile={word}",
                "-E",
                "UTF8",
            ]
        )
        authority.issue("postgresql")
        for suffix in ("key", "crt"):
            target = data / f"server.{suffix}"
            shutil.copy(authority.folder / f"postgresql.{suffix}", target)
            shutil.chown(target, "postgres", "postgres")
            target.chmod(0o600)
        settings = (self.root / "etc/postgresql/15/main/conf.d/weir.conf").read_text()
        sockets = f"unix_socket_directories = '{data}'\nssl = on\n"
        with (data / "postgresql.conf").open("a") as file:
            file.write(f"\n{settings}{sockets}")
        with (data / "pg_hba.conf").open("a") as file:
            file.write((self.root / "etc/weir/pg_hba.conf").read_text())
        self.server("postgresql", *as_user, str(bin_folder / "postgres"), "-D", str(data))
        create = [str(bin_folder / "createdb"), "-h", "127.0.0.1", "-U", "weir", "weir"]

        def is_created() -> bool:
            done = subprocess.run(
                [*self.prefix, "/", *create],
                env={"PATH": os.environ["PATH"], "PGPASSWORD": password},
                capture_output=True,
                check=False,
            )
            return done.returncode == 0

        wait_for(is_created, "PostgreSQL")

    def start_nginx(self, authority: Authority) -> None:
        tls = self.root / "etc/weir/tls"
        tls.mkdir()
        authority.issue("console")
        shutil.copy(authority.folder / "console.key", tls / "console.key")
        shutil.copy(authority.folder / "console.crt", tls / "console.pem")
        main = self.root / "nginx.conf"
        pid, site = self.root / "nginx.pid", self.root / "etc/nginx/conf.d/weir.conf"
        main.write_text(
            f"daemon off; user root; pid {pid}; error_log stderr;\nevents {{}}\nhttp {{ access_log off; include {site}; }}\n"
        )
        self.run("nginx", "-t", "-c", str(main))
        self.server("nginx", "nginx", "-c", str(main))

    def end(self) -> None:
        """Kills what still runs."""
        for unit in self.units.values():
            if unit.starts:
                unit.kill()
        for process in self.servers.values():
            process.terminate()
        for process in self.servers.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def run_quietly(words: list[str]) -> None:
    subprocess.run(words, check=True, capture_output=True, cwd="/")


def write_inventory(folder: Path, password: str, lake: Path | None = None) -> Path:
    """deploy/cluster.toml with the addresses of the namespaces. `lake`: both machines of the control plane run Spark jobs, with this folder as the lake."""
    text = (ROOT / "deploy" / "cluster.toml").read_text()
    text = text.replace(f'WEIR_SECRET_KEY = "{PLACEHOLDER}"', f'WEIR_SECRET_KEY = "{secrets.token_urlsafe(48)}"')
    text = text.replace(PLACEHOLDER, password).replace(EXAMPLE_SUBNET, SUBNET)
    if lake is not None:
        text = text.replace('"worker", "web"', '"worker", "spark-worker", "web"')
        settings = {"WEIR_LAKE_DIR": str(lake), "WEIR_SPARK_DRIVER_MEMORY": "700m", "WEIR_SPARK_MASTER": "local[1]"}
        text = text.replace("[settings]\n", "[settings]\n" + "".join(f'{n} = "{v}"\n' for n, v in settings.items()))
    (folder / "cluster.toml").write_text(text)
    return folder / "cluster.toml"


def configure(inventory: Path, out: Path) -> Path:
    """The files of each machine, by `weir configure` of this checkout."""
    assert command.main([str(inventory), "--to", str(out)]) == 0
    return out
