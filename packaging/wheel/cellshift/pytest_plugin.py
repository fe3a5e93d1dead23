"""Fixtures that give the tests of a client or a tool a whole OpenStack.

`cellshift_cloud` is one cloud for the whole session. `cellshift` is the same cloud, brought back to its first state after the test. The option
`cellshift_config` of pytest's own configuration names a configuration file of the cloud, below the root of the tests.
"""

import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

# A start takes less than a second on a quiet machine, a reset as well.
PATIENCE = 60
FIRST_LINE = re.compile(r"cellshift listens on (?P<url>http://\S+) with .*; its data is in (?P<data>.*)$")


class CloudFailed(Exception):
    """The cloud did not start, or did not come back to its first state."""


@dataclasses.dataclass
class Cloud:
    """A running cloud."""

    url: str
    # The clouds `cellshift` (a member of project demo) and `cellshift-admin` (the administrator).
    clouds_yaml: pathlib.Path
    process: subprocess.Popen

    @property
    def environment(self):
        """The variables with which OpenStack's clients find the cloud, for its user."""
        return {"OS_CLIENT_CONFIG_FILE": str(self.clouds_yaml), "OS_CLOUD": "cellshift"}

    def reset(self):
        """Brings the cloud back to its first state. Accounts, passwords and tokens stay valid."""
        # The file with the password is away for a moment during the reset.
        token = self.token("cellshift-admin")
        done = self._ask("POST", token)
        self._wait(lambda: self._ask("GET", token) >= done)

    def _ask(self, method, token):
        request = urllib.request.Request(f"{self.url}/ops/v1/dev/reset", method=method, headers={"X-Auth-Token": token})
        with _opener().open(request, timeout=PATIENCE) as answer:
            return json.load(answer)["reset"]["done"]

    def token(self, cloud="cellshift"):
        """A new token for a cloud of clouds.yaml."""
        account = _account(self.clouds_yaml.read_text(), cloud)
        user, project, password = (account[key] for key in ("username", "project_name", "password"))
        domain = {"id": "default"}
        body = {
            "auth": {
                "identity": {"methods": ["password"], "password": {"user": {"name": user, "domain": domain, "password": password}}},
                "scope": {"project": {"name": project, "domain": domain}},
            }
        }
        request = urllib.request.Request(f"{self.url}/identity/v3/auth/tokens", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with _opener().open(request, timeout=PATIENCE) as answer:
            return answer.headers["X-Subject-Token"]

    def _wait(self, is_so):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise CloudFailed(f"cellshift ended by itself with {self.process.returncode}")
            try:
                if is_so():
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                # The service is away for a moment.
                pass
            time.sleep(0.02)
        raise CloudFailed(f"the cloud is not back after {PATIENCE} s")


def _opener():
    """Asks the cloud itself, whatever proxy the environment names."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _account(clouds, name):
    """The words of a cloud in clouds.yaml, which the service writes with a key on each line."""
    part = re.search(rf"(?m)^  {re.escape(name)}:\n(?:    .*\n)+", clouds)
    if not part:
        raise CloudFailed(f"clouds.yaml has no cloud {name}")
    return {key: word.strip("'\"") for key, word in re.findall(r"(?m)^ +(\w+): (.+)$", part.group())}


def _program():
    """The program of this wheel: beside the interpreter of its environment, or on the PATH."""
    beside = pathlib.Path(sys.executable).parent / "cellshift"
    found = str(beside) if beside.exists() else shutil.which("cellshift")
    if not found:
        raise CloudFailed("there is no program cellshift beside the interpreter or on the PATH")
    return found


def start(config=None):
    """Starts a cloud on a free port. Its data go when its process ends."""
    command = [_program(), "serve", "--dev", "--listen", "127.0.0.1:0", *(["--config", str(config)] if config else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    line = process.stdout.readline()
    found = FIRST_LINE.match(line.rstrip("\n"))
    if not found:
        process.kill()
        raise CloudFailed(f"cellshift does not start: exit code {process.wait()}, output {line!r}")
    return Cloud(found["url"], pathlib.Path(found["data"]) / "clouds.yaml", process)


def pytest_addoption(parser):
    parser.addini("cellshift_config", "a configuration file of the cloud, below the root of the tests")


@pytest.fixture(scope="session")
def cellshift_cloud(request):
    """A cloud for the whole session."""
    named = request.config.getini("cellshift_config")
    cloud = start(request.config.rootpath / named if named else None)
    yield cloud
    cloud.process.terminate()
    cloud.process.wait(timeout=PATIENCE)


@pytest.fixture
def cellshift(cellshift_cloud):
    """The session's cloud, brought back to its first state after the test."""
    yield cellshift_cloud
    cellshift_cloud.reset()
