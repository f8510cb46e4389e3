"""`make manifests`: the manifests of deploy/kubernetes as kustomize renders them, checked by the schemas of Kubernetes and for references that do not exist.

Uses `kustomize` or `kubectl kustomize`, whichever is installed, and the passwords of secret.env.example. With `--server` it also sends them to the API server
of the current kubectl context as a dry run, which creates nothing but the namespace `weir`. Exits with 1 if something is wrong, with 2 without kustomize.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

from tests.cluster.local import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"
VERSIONS = ("1.30", "1.34")
"""An older and a newer release of Kubernetes: the schemas of both accept the manifests."""
CLUSTER_SCOPED = {"Namespace"}
REFERENCES = {"configMap": "ConfigMap", "configMapRef": "ConfigMap", "secretRef": "Secret", "secret": "Secret"}
"""Fields of a pod that name a generated object, and its kind."""


def program() -> list[str]:
    """The command that renders a folder; empty if none is installed."""
    for words in (["kustomize", "build"], ["kubectl", "kustomize"]):
        if shutil.which(words[0]):
            return words
    return []


def render_manifests(words: list[str]) -> str:
    """The manifests with generated names. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory(prefix="weir-manifests-") as folder:
        copy = Path(folder) / "kubernetes"
        shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("secret.env"))
        shutil.copy(FOLDER / "secret.env.example", copy / "secret.env")
        done = subprocess.run([*words, str(copy)], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def _references(value: Any) -> Iterator[tuple[str, str]]:
    """(kind, name) of each generated object that is named somewhere below."""
    if isinstance(value, list):
        for item in value:
            yield from _references(item)
    elif isinstance(value, dict):
        for field, item in value.items():
            if field in REFERENCES and isinstance(item, dict):
                yield REFERENCES[field], str(item.get("name") or item.get("secretName"))
            yield from _references(item)


def _images(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _images(item)
    elif isinstance(value, dict):
        if isinstance(value.get("image"), str):
            yield value["image"]
        for item in value.values():
            yield from _images(item)


def problems(text: str) -> list[str]:
    """Return the faults of rendered manifests."""
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    objects = [o for o in yaml.safe_load_all(text) if o]
    named = {(o["kind"], o["metadata"]["name"]) for o in objects}
    images = {f"{i['newName']}:{i['newTag']}" for i in kustomization["images"]}
    wrong: list[str] = []
    for o in objects:
        name = f"{o['kind']}/{o['metadata']['name']}"
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(o, version, strict=True)
            except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as e:
                wrong.append(f"{name}: not valid by the schema of {version}: {e}")
        if (o["metadata"].get("namespace") == kustomization["namespace"]) == (o["kind"] in CLUSTER_SCOPED):
            wrong.append(f"{name}: namespace {o['metadata'].get('namespace')}")
        wrong += [f"{name}: {kind}/{x} does not exist" for kind, x in _references(o) if (kind, x) not in named]
        wrong += [f"{name}: image {i} was not replaced" for i in _images(o) if i not in images]
    sources = sum(
        len(list(yaml.safe_load_all((FOLDER / name).read_text()))) for name in kustomization["resources"]
    ) + sum(len(kustomization[g]) for g in ("configMapGenerator", "secretGenerator"))
    if len(named) != sources:
        wrong.append(f"{len(named)} objects of {sources}")
    generated = {
        key: value for o in objects if o["kind"] == "ConfigMap" for key, value in o["data"].items()
    }  # the names of files and of variables are different
    for generator in kustomization["configMapGenerator"]:
        for file in generator.get("files", []):
            if generated.get(file) != (FOLDER / file).read_text():
                wrong.append(f"{file}: another content than the file")
    return wrong


def rejected_by_server(text: str) -> str:
    """Return the faults that the API server of the current context finds in the manifests; empty: it accepts all of them."""
    namespaces = [o for o in yaml.safe_load_all(text) if o and o["kind"] == "Namespace"]
    apply = ["kubectl", "apply", "--server-side", "-f", "-"]
    subprocess.run(apply, input=yaml.safe_dump_all(namespaces), check=True, text=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([*apply, "--dry-run=server"], input=text, check=False, text=True, capture_output=True)
    print(done.stdout, end="")
    return done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.deploy.rendered", description=__doc__)
    parser.add_argument("--server", action="store_true", help="also a dry run by the API server of the kubectl context")
    options = parser.parse_args()
    words = program()
    if not words:
        print("not installed: kustomize, or kubectl, which contains it", file=sys.stderr)
        return 2
    text = render_manifests(words)
    wrong = problems(text)
    if options.server and (rejection := rejected_by_server(text)):
        wrong.append(f"API server: {rejection}")
    for line in wrong:
        print(f"wrong: {line}")
    print(f"{' '.join(words)}: {text.count(chr(10) + 'kind: ')} objects, {len(wrong)} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
