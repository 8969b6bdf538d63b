"""Lock the clients of `make test-clients`: tests/clients/clients.toml in, one lock for each environment out.

Only the locks are written, nothing is installed. Run it after a version in clients.toml has changed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

CLIENTS = Path(__file__).parents[1] / "tests" / "clients"
LOCKS = CLIENTS / "locks"
JAVASCRIPT = CLIENTS / "javascript"


def table() -> dict[str, Any]:
    return tomllib.loads((CLIENTS / "clients.toml").read_text())


def package_json(versions: dict[str, str]) -> str:
    package = {
        "name": "harmonia-clients",
        "private": True,
        "description": "Written by `make client-locks` from clients.toml.",
        "type": "module",
        "dependencies": versions,
    }
    return json.dumps(package, indent=2) + "\n"


def lock_python(name: str, versions: dict[str, str]) -> None:
    pins = [f"{package}=={version}" for package, version in versions.items()]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    resolved = subprocess.run([*command, *pins], stdout=subprocess.PIPE, check=True).stdout
    packages = [item["metadata"] for item in json.loads(resolved)["install"]]
    lines = sorted((f"{package['name']}=={package['version']}" for package in packages), key=str.lower)
    header = f"# Written by `make client-locks` from clients.toml, [python.{name}]."
    (LOCKS / f"{name}.txt").write_text("\n".join([header, *lines]) + "\n")


def lock_javascript(versions: dict[str, str]) -> None:
    (JAVASCRIPT / "package.json").write_text(package_json(versions))
    # Without the addresses of a registry: every machine asks its own.
    options = ["--package-lock-only", "--omit-lockfile-registry-resolved", "--no-audit", "--no-fund"]
    subprocess.run(["npm", "install", *options], cwd=JAVASCRIPT, check=True)


def main() -> None:
    clients = table()
    LOCKS.mkdir(exist_ok=True)
    for name, versions in clients["python"].items():
        lock_python(name, versions)
    lock_javascript(clients["javascript"])


if __name__ == "__main__":
    main()
