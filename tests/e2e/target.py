"""What the end-to-end tests need before they begin: the built program, and Python programs in a virtual environment under target/."""

import os
import pathlib
import subprocess
import sys

from cloud import say

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def built():
    """The target directory and the program in it, or the one that CELLSHIFT_BIN names."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").absolute()
    target.mkdir(exist_ok=True)
    if os.environ.get("CELLSHIFT_BIN"):
        return target, pathlib.Path(os.environ["CELLSHIFT_BIN"]).resolve()
    say("building cellshift")
    subprocess.run(["cargo", "build", "--quiet", "--bin", "cellshift"], cwd=ROOT, check=True)
    return target, target / "debug" / "cellshift"


def environment(venv, wanted):
    """Makes a virtual environment and installs these packages from PyPI."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
    subprocess.run([venv / "bin" / "pip", "--disable-pip-version-check", "install", "--quiet", *wanted], check=True)
