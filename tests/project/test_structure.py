"""Structure that grows only better: import cycles, flat files, ambiguous class names, unit tests beside their product files."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.cluster.local import ROOT

PRODUCT = ("brokerd", "controlplane", "console", "pipeline", "weir", "weir_common")
FLAT = {
    "brokerd": {"__init__.py", "__main__.py", "environment.py"},
    "controlplane": {"__init__.py", "apps.py", "tasks.py"},
}
AMBIGUOUS_CLASSES: dict[str, str] = {}
"""Names of top-level classes that more than one product file defines, each with the reason."""
TESTED_WITH_PROCESSES = {
    "brokerd/cluster/zookeeper.py": "simulation/test_store_conformance.py",
    "brokerd/membership/membership.py": "simulation/test_safety.py",
    "brokerd/replication/fetcher_manager.py": "simulation/test_fetch_sessions.py",
    "brokerd/runtime/remote_logs.py": "simulation/test_tiered_brokers.py",
    "controlplane/controller/runner.py": "simulation/test_safety.py",
    "controlplane/devcluster/processes.py": "cluster/test_supervisor.py",
    "controlplane/management/commands/up.py": "cluster/test_up.py",
    "controlplane/monitoring/monitor.py": "cluster/test_control_plane.py",
    "pipeline/session.py": "pipeline/test_lake_jobs.py",
}
"""Product files that connect others to sockets, threads, signals or processes, each with the test that runs it so: in the simulation or with
processes. They have no test file of their name in tests/unit, where their collaborators are tested. Every other file with logic has one."""
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match, ast.BoolOp)

LINES_MAX = 450
"""Lines of a product file. A longer file answers more than one question and is split."""

UNFORMATTED_TABLES = {
    "brokerd/config/share_groups.py",
    "brokerd/config/streams_groups.py",
    "brokerd/cluster/configs.py",
    "brokerd/config/broker.py",
    "brokerd/config/groups.py",
    "brokerd/config/remote.py",
    "brokerd/config/security.py",
    "brokerd/wire/apis.py",
    "console/states.py",
    "controlplane/domain/alert.py",
    "controlplane/domain/health.py",
    "tests/cli/calls.py",
    "tests/cli/calls_4.py",
    "tests/foreign/features.py",
    "tests/unit/wire/test_apis.py",
}


def product_files() -> list[Path]:
    found = [p.relative_to(ROOT) for top in PRODUCT for p in (ROOT / top).rglob("*.py")]
    return sorted(p for p in found if "migrations" not in p.parts and p.name != "__init__.py")


def module_name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imported_modules(path: Path, modules: set[str]) -> Iterator[str]:
    """Modules of ours that a file imports, those under TYPE_CHECKING and inside functions included."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in modules else node.module


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one import cycle; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as e:
        return list(e.args[1])
    return []


def test_no_file_and_no_package_imports_itself_through_others() -> None:
    files = {module_name(p): p for p in product_files()}
    graph = {
        name: {m for m in imported_modules(p, set(files)) if m in files and m != name} for name, p in files.items()
    }
    packages: dict[str, set[str]] = defaultdict(set)
    for name, others in graph.items():
        package = ".".join(name.split(".")[:2])
        packages[package] |= {".".join(o.split(".")[:2]) for o in others} - {package}
    assert len(graph) > 300 and sum(map(len, graph.values())) > 1000
    assert cycle(graph) == []
    assert cycle(dict(packages)) == []


def test_a_cycle_is_detected() -> None:
    assert set(cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == {"a", "b", "c"}


def test_no_module_is_left_flat_in_a_package_of_packages() -> None:
    for package, allowed in FLAT.items():
        assert {p.name for p in (ROOT / package).glob("*.py")} <= allowed


def test_a_class_name_means_one_class() -> None:
    defined: dict[str, list[str]] = defaultdict(list)
    for path in product_files():
        for node in ast.parse((ROOT / path).read_text()).body:
            if isinstance(node, ast.ClassDef) and "management" not in path.parts:
                defined[node.name].append(str(path))
    ambiguous = {name: paths for name, paths in defined.items() if len(paths) > 1}
    assert ambiguous.keys() == AMBIGUOUS_CLASSES.keys(), ambiguous


def has_logic(source: str) -> bool:
    """Whether a function of the file branches or loops. Tables, enums, messages and rows do not, and the text of a row is for people."""
    functions = (
        n
        for n in ast.walk(ast.parse(source))
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name not in ("__str__", "__repr__")
    )
    return any(
        isinstance(n, BRANCHES) or (isinstance(n, ast.comprehension) and n.ifs) for f in functions for n in ast.walk(f)
    )


def test_logic_is_a_function_that_branches_or_loops() -> None:
    assert not has_logic("class Kind(Enum):\n    A = 1 if True else 2\n\ndef name(kind):\n    return kind.name")
    assert not has_logic("class Row(Model):\n    def __str__(self):\n        return self.name or 'none'")
    assert has_logic("def f(x):\n    return 1 if x else 2")
    assert has_logic("class A:\n    async def f(self, xs):\n        return [x for x in xs if x]")


def test_unit_tests_mirror_the_product() -> None:
    """Each directory of tests/unit is a package of the product (brokerd's without its prefix).

    Each product file with logic has a test file of its name, except those in `TESTED_WITH_PROCESSES`."""
    unit = ROOT / "tests" / "unit"
    packages = {p.parent for p in product_files()}
    beside = {"bench", "foreign", "mirror"}
    for folder in {p.parent.relative_to(unit) for p in unit.rglob("test_*.py")}:
        if folder.parts[:1] and folder.parts[0] not in beside:
            mirrored = folder in packages or Path("brokerd") / folder in packages
            assert mirrored, f"tests/unit/{folder} mirrors no package"
    tests = {p.relative_to(unit) for p in unit.rglob("test_*.py")}

    def has_test(path: Path) -> bool:
        inside = path.relative_to("brokerd") if path.parts[0] == "brokerd" else path
        return inside.with_name(f"test_{inside.name}") in tests

    without = {str(p) for p in product_files() if not has_test(p) and has_logic((ROOT / p).read_text())}
    assert without == TESTED_WITH_PROCESSES.keys(), without ^ TESTED_WITH_PROCESSES.keys()
    assert [t for t in TESTED_WITH_PROCESSES.values() if not (ROOT / "tests" / t).is_file()] == []


def assigned_from_outside(path: Path) -> list[str]:
    """Assignments to an attribute of another object's attribute, such as `self.log.config = ...`."""
    found = []
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in (t for one in targets for t in (one.elts if isinstance(one, ast.Tuple) else [one])):
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Attribute):
                found.append(f"{path}:{target.lineno} {ast.unparse(target)}")
    return found


def test_a_broker_builds_its_components_complete() -> None:
    """The composition of a broker gives each component its collaborators at construction and assigns none of its attributes later."""
    composition = [p for p in product_files() if p.parts[:2] == ("brokerd", "runtime")]
    assert len(composition) > 5
    assert [found for path in composition for found in assigned_from_outside(path)] == []
    assert assigned_from_outside(Path("brokerd/replication/replica_manager.py")), "the search finds nothing"


def test_files_have_at_most_450_lines() -> None:
    lines = {str(p): len((ROOT / p).read_text().splitlines()) for p in product_files()}
    assert len(lines) > 400
    assert {p: n for p, n in lines.items() if n > LINES_MAX} == {}


def test_only_tables_are_exempt_from_the_formatter() -> None:
    """`fmt: skip` is for tables of definitions with one row per line, in the files listed here."""
    skips = {
        str(p.relative_to(ROOT))
        for folder in (
            "brokerd",
            "controlplane",
            "console",
            "pipeline",
            "weir",
            "weir_common",
            "bench",
            "clients",
            "tests",
        )
        for p in (ROOT / folder).rglob("*.py")
        if "# fmt: " + "skip" in p.read_text() or "# fmt: " + "off" in p.read_text()
    }
    assert skips <= UNFORMATTED_TABLES, sorted(skips - UNFORMATTED_TABLES)


def test_no_file_has_a_conflict_marker() -> None:
    """The page of a group showed the markers of a merge to everybody: a template with them renders, and no test reads such a line."""
    tops = (*PRODUCT, "templates", "static", "locale", "docs", "deploy", "tests", "bench", "examples")
    suffixes = {
        ".py",
        ".html",
        ".txt",
        ".css",
        ".js",
        ".md",
        ".po",
        ".toml",
        ".yaml",
        ".json",
        ".properties",
        ".service",
    }
    files = [p for top in tops for p in (ROOT / top).rglob("*") if p.suffix in suffixes and p.is_file()]
    marker = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
    found = [
        str(p.relative_to(ROOT)) for p in [*files, *ROOT.glob("*.md")] if marker.search(p.read_text(errors="replace"))
    ]
    assert len(files) > 1000 and found == []
