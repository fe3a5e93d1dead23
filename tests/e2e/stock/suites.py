"""Each suite: where its tests are, what they must know about the service, and which do not apply."""

import os
import pathlib
import subprocess

from cloud import say
from . import tempest_config

HERE = pathlib.Path(__file__).resolve().parent
# Most tests wait for the service, so more workers than cores keep these busy.
WORKERS = str((os.cpu_count() or 1) + 1)


class Suite:
    def __init__(self, name, tests, settings, expressions=()):
        self.name, self.tests, self.settings, self.expressions = name, tests, settings, list(expressions)

    def selected(self, expressions):
        """The same suite with the tests alone that an expression matches."""
        return Suite(self.name, self.tests, self.settings, expressions)

    def run(self, cloud, venv, work):
        """Runs the suite; true if every test passed that applies."""
        work.mkdir()
        packages = next(venv.glob("lib/python*/site-packages"))
        (work / ".stestr.conf").write_text(f"[DEFAULT]\ntest_path={packages / self.tests}\ntop_dir={packages}\n")
        variables = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
        variables |= {"PATH": f"{venv / 'bin'}:{os.environ['PATH']}", "OS_TEST_TIMEOUT": "180", "no_proxy": "127.0.0.1"}
        variables |= self.settings(cloud, work)
        skipped = HERE / f"{self.name}.skip"
        command = [venv / "bin" / "stestr", "run", "--concurrency", WORKERS, "--exclude-list", skipped, *self.expressions]
        say(f"the suite of {self.name}{' ' + ' '.join(self.expressions) if self.expressions else ''}")
        with open(work / "output", "w+") as output:
            ended = subprocess.run(command, cwd=work, env=variables, stdout=output, stderr=output, stdin=subprocess.DEVNULL).returncode
            output.seek(0)
            lines = output.read().splitlines()
        print("\n".join(summary(lines) if ended == 0 else lines), flush=True)
        return ended == 0


def summary(lines):
    """The last lines, which count the tests."""
    begin = next((number for number, line in enumerate(lines) if line.startswith("Totals")), 0)
    return [line for line in lines[begin:] if line.startswith((" - ", "Ran:"))]


def of_tempest(cloud, work):
    (work / "etc").mkdir()
    (work / "etc" / "tempest.conf").write_text(tempest_config.of(cloud, work))
    return {"TEMPEST_CONFIG_DIR": str(work / "etc")}


SUITES = {suite.name: suite for suite in [Suite("tempest", "tempest/test_discover", of_tempest)]}
