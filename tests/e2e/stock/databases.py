"""The databases that the service is run on, SQLite, and PostgreSQL if CELLSHIFT_TEST_POSTGRES names a server; and its configuration."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import uuid
from urllib.parse import urlsplit, urlunsplit

from cloud import Failed

PARTS = ["api", "services", "cell0", "cell1"]
# A test asks for a second snapshot while the first is made, and a small disk is copied within a few milliseconds.
COPIES_TAKE_TIME = "[compute.latency_ms]\ncopy_disks = 300\n"


def databases(everything):
    server = os.environ.get("CELLSHIFT_TEST_POSTGRES")
    return [Sqlite(), Postgres(server)] if everything and server else [Sqlite()]


def configured(cloud, text):
    """The service's options for this configuration."""
    config = cloud.work / "cellshift.toml"
    config.write_text(text)
    return ["--config", config]


class Sqlite:
    name = "SQLite"

    @contextlib.contextmanager
    def serving(self, cloud):
        yield configured(cloud, COPIES_TAKE_TIME)


class Postgres:
    """Makes databases of its own on the server, and drops them at the end."""

    name = "PostgreSQL"

    def __init__(self, server):
        self.server = server

    @contextlib.contextmanager
    def serving(self, cloud):
        prefix = f"suites_{uuid.uuid4().hex[:8]}_"
        names = {part: prefix + part for part in PARTS}
        for name in names.values():
            self.execute(f"CREATE DATABASE {name}")
        try:
            yield configured(cloud, f"{COPIES_TAKE_TIME}\n{self.configuration(names)}")
        finally:
            cloud.kill()
            for name in names.values():
                self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def configuration(self, names):
        url = {part: f'"{self.url_of(name)}"' for part, name in names.items()}
        cells = "\n".join(f"{part} = {url[part]}" for part in PARTS[2:])
        return f"[database]\napi = {url['api']}\nservices = {url['services']}\n\n[database.cells]\n{cells}\n"

    def url_of(self, name):
        return urlunsplit(urlsplit(self.server)._replace(path=f"/{name}"))

    def execute(self, statement):
        done = subprocess.run([psql(), self.server, "-q", "-c", statement], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"`{statement}`: {done.stderr.strip()}")


def psql():
    """PostgreSQL's command, on the PATH or where Debian keeps it."""
    kept = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/psql"))
    found = shutil.which("psql") or (kept and kept[-1])
    if not found:
        raise Failed("there is no psql here: install PostgreSQL's client")
    return found
