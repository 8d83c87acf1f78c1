"""Ask pip-audit, in an environment of its own, about what salcli needs at run time as it is installed here."""

import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path


def installed(root: str) -> dict[str, str]:
    """Follow requirements without extras from `root`, which is left out; what another platform needs is not here."""
    found: dict[str, str] = {}
    waiting = [root]
    while waiting:
        for requirement in requires(waiting.pop()) or ():
            match = re.match(r"[\w.-]+", requirement)
            assert match is not None
            name = re.sub(r"[-_.]+", "-", match[0]).lower()
            if name in found or "extra ==" in requirement:
                continue
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue
            waiting.append(name)
    return found


def judge(said: str, complaint: str, n_asked: int) -> str | None:
    """Say what stands against a release, in one line or one for each vulnerability; None: nothing.

    pip-audit calls packages that the service does not know "skipped", and ends well if it skipped them all.
    """
    try:
        packages = json.loads(said)["dependencies"]
    except (ValueError, KeyError):
        why = (complaint.strip().splitlines() or ["no answer"])[-1][:160]
        return f"audit: the vulnerability service could not be reached, so nothing is known ({why})"
    known = [package for package in packages if "vulns" in package]
    bad = [f"{p['name']} {p['version']}: {v['id']}" for p in known for v in p["vulns"]]
    if len(known) < n_asked:
        bad.append(
            f"audit: the vulnerability service could not be reached for {n_asked - len(known)} of {n_asked} packages: "
            "nothing is known of them"
        )
    return "\n".join(bad) or None


def main(folder: Path) -> int:
    """Audit; 1 for a vulnerability, or where nothing could be learnt."""
    packages = installed("salcli")
    listed = folder / "requirements.txt"
    listed.write_text("".join(f"{name}=={number}\n" for name, number in sorted(packages.items())), encoding="utf-8")
    command = [folder / "bin" / "pip-audit", "--no-deps", "--disable-pip", "-f", "json", "-r", listed]
    done = subprocess.run([*command, "--progress-spinner", "off"], capture_output=True, text=True, check=False)
    against = judge(done.stdout, done.stderr, len(packages))
    sys.stderr.write((against or f"audit: no known vulnerability in {len(packages)} packages") + "\n")
    return int(against is not None)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
