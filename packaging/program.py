"""The facts of the program that its packages state: its version, the C library that it needs, and the manifest that describes it."""

import pathlib
import re
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def manifest():
    """The package's part of Cargo.toml, with what the workspace says for all of its packages."""
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
    return cargo["package"] | cargo["workspace"]["package"]


def newest_glibc(program, default):
    """The newest version of the C library that the program's bytes name, as a pair of numbers."""
    versions = {tuple(map(int, version.split(b"."))) for version in re.findall(rb"GLIBC_(2\.\d+)\0", program)}
    return max(versions, default=default)
