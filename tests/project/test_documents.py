"""Paths, files, links and commands that the documents name exist. Does not check that their statements are true."""

from __future__ import annotations

import functools
import os
import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from brokerd.wire.apis import APIS
from tests.cluster.local import ROOT
from weir.cli.app import build
from weir.cli.command_names import API, COMMANDS

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md")])
FOLDERS = (
    "brokerd/",
    "controlplane/",
    "console/",
    "pipeline/",
    "tests/",
    "docs/",
    "bench/",
    "templates/",
    "static/",
    "deploy/",
    "weir/",
    "weir_common/",
)


def words(path: Path) -> set[str]:
    """The text of code spans."""
    text = path.read_text()
    text_without_blocks = re.sub(r"```.*?```", "", text, flags=re.S)
    return set(re.findall(r"`([^`\n]+)`", text_without_blocks))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_path_a_document_names_exists(path: Path) -> None:
    named = {w for w in words(path) if w.startswith(FOLDERS) and re.fullmatch(r"[\w./-]+", w)}
    missing = sorted(w for w in named if not (ROOT / w).exists())
    assert missing == []


NAMES_OF_DJANGO = {"interpolate", "makemigrations"}
FILE_NAME = re.compile(r".*\.(css|html|js|md|po|py|yml)")


def code_words(path: Path) -> set[str]:
    """The words of the files, and of all files of the folders, that a document names."""
    named = [ROOT / w for w in words(path) if (ROOT / w).exists()]
    files = [q for p in named for q in (p.rglob("*") if p.is_dir() else [p]) if q.suffix in (".py", ".html", ".js")]
    return {word for q in set(files) for word in re.findall(r"[A-Za-z_]\w+", q.read_text())}


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/how-to/add-*.md")), ids=lambda p: p.stem)
def test_every_function_that_a_how_to_names_is_in_a_file_that_it_names(path: Path) -> None:
    names = {w for w in words(path) if re.fullmatch(r"[A-Za-z_]\w{2,}(\.\w+)?", w) and not FILE_NAME.fullmatch(w)}
    known = code_words(path) | NAMES_OF_DJANGO
    assert sorted(n for n in names if n.rpartition(".")[2] not in known) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_to_a_file_has_a_target(path: Path) -> None:
    targets = [t.partition("#")[0] for t in re.findall(r"\]\(([^)]+)\)", path.read_text()) if "://" not in t]
    assert [t for t in targets if t and not (path.parent / t).exists()] == []


def anchors(path: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.S)
    headings = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", h) for h in re.findall(r"^#+ (.*)$", text, flags=re.M)]
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_to_a_heading_has_a_target(path: Path) -> None:
    targets = [t for t in re.findall(r"\]\(([^)]+)\)", path.read_text()) if "://" not in t and "#" in t]
    missing = []
    for target in targets:
        file, _, anchor = target.partition("#")
        document = path.parent / os.path.normpath(file) if file else path
        if document.suffix == ".md" and document.exists() and anchor not in anchors(document):
            missing.append(target)
    assert missing == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_yaml_block_is_valid(path: Path) -> None:
    for block in re.findall(r"^```ya?ml\n(.*?)^```", path.read_text(), flags=re.S | re.M):
        yaml.safe_load(block)


@pytest.mark.parametrize(
    "path", [p for p in DOCUMENTS if p.name != "CHANGELOG.md"], ids=lambda p: str(p.relative_to(ROOT))
)
def test_every_environment_variable_a_document_names_exists(path: Path) -> None:
    """The CHANGELOG also names removed variables."""
    named = set(re.findall(r"WEIR_[A-Z0-9_]+[A-Z0-9]", path.read_text()))
    assert sorted(named - known_variables()) == []


@functools.cache
def known_variables() -> frozenset[str]:
    files = subprocess.run(
        ["git", "grep", "-hoE", "WEIR_[A-Z0-9_]+[A-Z0-9]", "--", "*.py", "Makefile", "deploy"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return frozenset(files.split())


@pytest.fixture(scope="module")
def tracked_files() -> list[str]:
    out = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return out.splitlines()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_python_file_a_document_names_exists(path: Path, tracked_files: list[str]) -> None:
    """With or without backticks, as a whole path or as its last parts."""
    named = set(re.findall(r"(?<![\w/.-])[\w][\w/-]*\.py\b", path.read_text()))
    assert sorted(w for w in named if not any(f"/{t}".endswith(f"/{w}") for t in tracked_files)) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_a_document_names_exists(path: Path) -> None:
    """Targets of make, and the project's own commands of manage.py."""
    text = path.read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    assert sorted(set(re.findall(r"`make ([a-z]+(?:-[a-z]+)*)", text)) - targets) == []
    commands = {p.stem for p in (ROOT / "controlplane" / "management" / "commands").glob("*.py")} | {
        "migrate",
        "collectstatic",
    }
    assert sorted(set(re.findall(r"manage\.py ([a-z_]+)", text)) - commands) == []


def rest_command_lines(text: str) -> list[list[str]]:
    """The words after `weir` of each command in a block or a code span, without comments, redirections and a final `...`."""
    spans = re.findall(r"`weir ([^`\n]+)`", text)
    blocks = "\n".join(re.findall(r"^```.*?^```", text, flags=re.S | re.M))
    lines = re.findall(r"^ *(?:- |\.venv/bin/)?weir (.+)$", blocks, flags=re.M)
    commands = [shlex.split(re.split(r" [|>#]| \|\|", line)[0]) for line in [*spans, *lines]]
    return [[w for w in words if w != "..."] for words in commands if words[0] in COMMANDS - {API}]


def usage_error(words: list[str]) -> str:
    """The error of the command line for these words; "" if they are valid or only incomplete (`weir diff`)."""
    command: click.Command = build()
    rest = [str(Path(__file__)) if before == "-f" else word for before, word in zip(["", *words], words, strict=False)]
    try:
        while isinstance(command, click.Group) and rest:
            command, rest = command.commands[rest[0]], rest[1:]
        command.make_context("weir", rest)
    except KeyError as e:
        return f"no command {e}"
    except (click.MissingParameter, click.BadOptionUsage, click.exceptions.NoArgsIsHelpError):
        return ""
    except click.UsageError as e:
        return e.format_message()
    return ""


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_of_the_rest_api_in_a_document_is_valid(path: Path) -> None:
    errors = {" ".join(words): usage_error(words) for words in rest_command_lines(path.read_text())}
    assert {words: error for words, error in errors.items() if error} == {}


def test_an_invalid_command_is_found() -> None:
    text = "See `weir connectors restart --include-tasks true`.\n```\nweir topics lst | head\n```\n"
    assert [usage_error(words) for words in rest_command_lines(text)] == [
        "Got unexpected extra argument (true)",
        "no command 'lst'",
    ]


def test_every_make_command_in_the_readme_is_in_the_makefile() -> None:
    verbs = set(re.findall(r"\bmake (?!ARGS)([a-z]+(?:-[a-z]+)*)", (ROOT / "README.md").read_text()))
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    assert verbs <= known
    assert {
        "setup",
        "up",
        "down",
        "status",
        "check",
        "test",
        "simulate",
        "faults",
        "browser",
        "pipeline",
        "bench",
    } <= known


def test_ci_runs_the_commands_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert "make check" in script
    assert "make test" in script
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_every_api_with_a_gap_is_named_among_the_gaps() -> None:
    text = (ROOT / "GAPS.md").read_text()
    assert [a.name for a in APIS.values() if a.gaps and not re.search(rf"\b{a.name}\b", text)] == []


def test_decisions_are_numbered_without_gaps_and_name_the_alternatives() -> None:
    found = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    assert [int(p.name[:3]) for p in found] == list(range(1, len(found) + 1))
    for path in found:
        text = path.read_text()
        for part in ("**Context.**", "**Choice.**", "**Given up.**", "**Would change our mind.**"):
            assert part in text, f"{path.name} lacks {part}"


def test_options_of_up_named_in_the_readme_exist() -> None:
    options = set(
        re.findall(r"--[a-z][a-z-]+", " ".join(re.findall(r"make up ARGS='([^']*)'", (ROOT / "README.md").read_text())))
    )
    source = (ROOT / "controlplane" / "management" / "commands" / "up.py").read_text()
    assert options
    assert [o for o in sorted(options) if f'"{o}"' not in source] == []


def test_nothing_that_was_built_is_committed() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    assert [
        t
        for t in tracked
        if t.startswith(("data/", "build/", ".venv/")) or t.endswith((".pyc", ".sqlite3", ".parquet"))
    ] == []
