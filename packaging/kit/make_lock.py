"""Writes a kit's entry into the lock file and its files into a folder for a mirror or a hub.

`python packaging/kit/make_lock.py NAME COMPUTES_ON FOLDER [--minimum-driver V] [pip's options, as --index-url ...]`
must run with the Python and on the system that the kit is for: pip resolves for where it runs. The versions come from
constraints.txt, so a lock changes only when that does.
"""

import argparse
import hashlib
import json
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "resources" / "kits.json"
WANTED = ("torch>=2.6,<3", "transformers>=5,<6", "safetensors", "numpy")
SYSTEMS = {"linux": "linux", "win32": "windows", "darwin": "macos"}
MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "arm64": "arm64", "aarch64": "arm64"}


def main() -> int:
    """Resolve, download, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("computes_on", choices=("cpu", "cuda", "rocm", "mps"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minimum-driver", default="")
    parser.add_argument("--lock", type=Path, default=LOCK)
    options, pip_options = parser.parse_known_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest"]
    constraints = ["-c", str(ROOT / "constraints.txt")]
    subprocess.run([*command, str(options.folder), *constraints, *pip_options, *WANTED], check=True)
    files = sorted(options.folder.glob("*.whl"), key=lambda path: (not path.name.startswith("torch-"), path.name))
    entry = {
        "system": SYSTEMS[sys.platform],
        "machine": MACHINES[platform.machine().lower()],
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "computes_on": options.computes_on,
        "version": files[0].name.split("-")[1],
        "files": [described(path) for path in files],
    }
    if options.minimum_driver:
        entry["minimum_driver"] = options.minimum_driver
    lock = json.loads(options.lock.read_text()) if options.lock.exists() else {"format": 1, "kits": {}}
    lock["kits"][options.name] = entry
    options.lock.write_text(json.dumps(lock, indent=1, sort_keys=True) + "\n")
    total = sum(file["size_bytes"] for file in entry["files"])
    sys.stdout.write(f"{options.name}: {len(files)} files, {total / 1e6:.0f} MB\n")
    return 0


def described(path: Path) -> dict[str, str | int]:
    """A file's entry."""
    with path.open("rb") as data:
        digest = hashlib.file_digest(data, "sha256").hexdigest()
    return {"filename": path.name, "sha256": digest, "size_bytes": path.stat().st_size}


if __name__ == "__main__":
    sys.exit(main())
