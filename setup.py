"""Packages of the wheel. `templates/`, `static/`, `locale/`, `deploy/` and `docs/runbooks/` are installed inside the package `weir`."""

from setuptools import find_packages, setup

PAGES = {
    "weir.templates": "templates",
    "weir.static": "static",
    "weir.locale": "locale",
    "weir.deploy": "deploy",
    "weir.runbooks": "docs/runbooks",
}

setup(
    packages=[
        *find_packages(
            include=["brokerd*", "controlplane*", "console*", "pipeline*", "weir", "weir.*", "weir_common*"]
        ),
        *PAGES,
    ],
    package_dir=PAGES,
    package_data={"": ["py.typed", "*.pxd", "rest_operations.json"], **{package: ["**/*"] for package in PAGES}},
    # The passwords of somebody's cluster.
    exclude_package_data={"weir.deploy": ["kubernetes/secret.env"]},
)
