"""Each suite: where its tests are, what they must know about the service, and which do not apply."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import time

import yaml

from cloud import Failed, say
from . import tempest_config

HERE = pathlib.Path(__file__).resolve().parent
# Most tests wait for the service, so more workers than cores keep these busy.
WORKERS = (os.cpu_count() or 1) + 1
# The words of stestr when its expressions select no test.
NONE_SELECTED = "The specified regex doesn't match with anything"


class Suite:
    """Tests of a project: the folders that they are found in, and what tells them about a running service."""

    def __init__(self, name, folders, settings, workers=WORKERS):
        self.name, self.folders, self.settings, self.workers = name, folders, settings, workers
        self.expressions = []

    def selected(self, expressions):
        """The same suite with the tests alone that an expression matches."""
        suite = type(self)(self.name, self.folders, self.settings, self.workers)
        suite.expressions = expressions
        return suite

    def run(self, cloud, venv, work):
        """Runs the suite; true if every test passed that applies, and there was one."""
        work.mkdir()
        variables = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
        variables |= {"OS_TEST_TIMEOUT": "180", "no_proxy": "127.0.0.1"} | self.settings(cloud, work, venv)
        with self.commands(venv, work) as commands:
            variables["PATH"] = f"{commands}:{os.environ['PATH']}"
            # All folders, whatever becomes of the first ones.
            passed = [self.run_folder(folder, venv, work, variables) for folder in self.folders]
        return False not in passed and True in passed

    def commands(self, venv, work):
        """The folder with the commands that the tests run."""
        return contextlib.nullcontext(venv / "bin")

    def run_folder(self, folder, venv, work, variables):
        """Runs the tests of a folder; None if the expressions select none of them."""
        packages = next(venv.glob("lib/python*/site-packages"))
        # All tests of a class run in one worker: they share what the class sets up, and names.
        settings = f"[DEFAULT]\ntest_path={packages / folder}\ntop_dir={packages}\ngroup_regex=([^.]+\\.)+\n"
        (work / ".stestr.conf").write_text(settings)
        skipped = HERE / f"{self.name}.skip"
        command = [venv / "bin" / "stestr", "run", "--concurrency", str(self.workers), "--exclude-list", skipped, *self.expressions]
        say(f"{folder}{' ' + ' '.join(self.expressions) if self.expressions else ''}")
        with open(work / "output", "w+") as output:
            ended = subprocess.run(command, cwd=work, env=variables, stdout=output, stderr=output, stdin=subprocess.DEVNULL).returncode
            output.seek(0)
            lines = output.read().splitlines()
        print("\n".join(summary(lines) if ended == 0 else lines), flush=True)
        if any(NONE_SELECTED in line for line in lines):
            return None
        return ended == 0


class SuiteOfCommands(Suite):
    """Tests that run the command openstack many hundred times. To start Python anew would take longer than most of the commands."""

    @contextlib.contextmanager
    def commands(self, venv, work):
        folder = work / "commands"
        folder.mkdir()
        command, place = folder / "openstack", folder / "socket"
        command.write_text(f"#!{venv / 'bin' / 'python'} -IS\n{(HERE / 'as_openstack.py').read_text()}")
        command.chmod(0o755)
        # The client looks for clouds.yaml where it was loaded.
        client = subprocess.Popen([venv / "bin" / "python", HERE.parent / "forking_client.py", place], cwd=work)
        try:
            deadline = time.monotonic() + 60
            while not place.exists():
                if client.poll() is not None or time.monotonic() > deadline:
                    raise Failed("the openstack client does not load")
                time.sleep(0.1)
            yield f"{folder}:{venv / 'bin'}"
        finally:
            client.kill()
            client.wait()


def summary(lines):
    """The last lines, which count the tests."""
    begin = next((number for number, line in enumerate(lines) if line.startswith("Totals")), 0)
    return [line for line in lines[begin:] if line.startswith((" - ", "Ran:"))]


def of_tempest(cloud, work, _venv):
    (work / "etc").mkdir()
    (work / "etc" / "tempest.conf").write_text(tempest_config.of(cloud, work))
    return {"TEMPEST_CONFIG_DIR": str(work / "etc")}


def of_novaclient(cloud, work, venv):
    """Its tests want the administrator's cloud under a name of theirs, with ids of the domains, and look for the program `nova`."""
    admin = yaml.safe_load((cloud.data / "clouds.yaml").read_text())["clouds"]["devstack-admin"]
    admin["auth"] |= {"user_domain_id": "default", "project_domain_id": "default"}
    (work / "clouds.yaml").write_text(yaml.safe_dump({"clouds": {"functional_admin": admin}}))
    return {"TOX_ENV_DIR": str(venv), "OS_NOVACLIENT_NETWORK": "private"}


def of_devstacks_clouds(cloud, work, _venv):
    """The tests of openstackclient give their commands no variable that begins with OS_, so the file lies where they run."""
    shutil.copy(cloud.data / "clouds.yaml", work)
    # The content of the images that openstacksdk's tests make.
    (work / "CONTRIBUTING.rst").write_text("A file.\n")
    return {"OPENSTACKSDK_FLAVOR": "m1.tiny", "OPENSTACKSDK_IMAGE": IMAGE}


IMAGE = "cirros-0.6.3-x86_64-disk"
# The other folders are for services that are not here, or for examples that are not in the package.
OF_SDK = [f"openstack/tests/functional/{name}" for name in ["block_storage", "cloud", "compute", "identity", "image", "network", "placement"]]
SUITES = {
    suite.name: suite
    for suite in [
        Suite("tempest", ["tempest/test_discover"], of_tempest),
        # The tests of these two want the project for themselves: they count in it.
        Suite("novaclient", ["novaclient/tests/functional"], of_novaclient, workers=1),
        Suite("openstacksdk", OF_SDK, of_devstacks_clouds, workers=1),
        SuiteOfCommands("openstackclient", ["openstackclient/tests/functional"], of_devstacks_clouds),
    ]
}
