"""Judges what pip-audit reports:  python .ci/audit.py REPORT.json.

Ends with 1 if a package that is installed has a known vulnerability. Where the public
lists cannot be had there is no report, or one that knows no package: a line says so.
"""

import json
import pathlib
import sys


def main(path: pathlib.Path) -> str | None:
    """Prints a line; returns the findings, which are the reason to fail."""
    try:
        packages = json.loads(path.read_bytes())["dependencies"]
    except (OSError, ValueError):
        packages = []
    known = [package for package in packages if "vulns" in package]
    if not known:
        print("dependencies not checked: the public lists cannot be had")  # noqa: T201
        return None
    found = [
        f"{package['name']} {package['version']}: {flaw['id']}, "
        f"mended in {', '.join(flaw['fix_versions']) or 'no version yet'}"
        for package in known
        for flaw in package["vulns"]
    ]
    unknown = len(packages) - len(known)
    print(f"{len(known)} packages checked, {unknown} not in the lists")  # noqa: T201
    return "\n".join(found) or None


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
