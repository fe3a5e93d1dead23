"""A running cellshift, the openstack command pointed at it, and checks that say what they found."""

import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

# No single command of the client may take longer, in seconds: it waits for servers itself (--wait).
PATIENCE = 120


HERE = pathlib.Path(__file__).resolve().parent


class Failed(Exception):
    """Something was not as it should be."""


def say(text):
    print(text, flush=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Client:
    """The openstack client, whose modules are loaded once (forking_client.py)."""

    def __init__(self, openstack):
        command = [openstack.parent / "python", HERE / "forking_client.py"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, arguments, environment):
        self.process.stdin.write(json.dumps({"arguments": arguments, "environment": environment}) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        answer = self.process.stdout.readline() if ready else ""
        if not answer:
            raise Failed(f"`openstack {' '.join(arguments)}` does not end, or its process has died")
        return subprocess.CompletedProcess(arguments, **json.loads(answer))

    def kill(self):
        self.process.kill()
        self.process.wait()


class Cloud:
    def __init__(self, binary, openstack, work):
        self.binary, self.work = binary, work
        # The client's program, and a process of it once a command is to run.
        self.program, self.client = openstack, None
        self.data, self.log = work / "data", work / "serve.log"
        self.port = free_port()
        self.process = None
        self.checks = self.commands = 0

    # The service.

    def start(self, *options):
        self.serve("--data-dir", self.data, *options)

    def start_dev(self):
        """Starts a cloud whose data the program keeps where it says."""
        self.serve("--dev")

    def serve(self, *options):
        with open(self.log, "ab") as log:
            command = [self.binary, "serve", "--listen", f"127.0.0.1:{self.port}", *options]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Failed(f"serve ended by itself with {self.process.returncode}")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthcheck", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.1)
        raise Failed("serve is not healthy after 60 s")

    def stop(self):
        """Ctrl-C, which must end it cleanly."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=30)
        self.check("the service ends cleanly on Ctrl-C", code, 0)
        self.process = None

    def kill(self):
        if self.client:
            self.client.kill()
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def log_tail(self):
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-25:])

    def run(self, *arguments, env=None):
        """A subcommand of the program itself: exit code, standard output, standard error."""
        done = subprocess.run(
            [self.binary, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE, env=env, stdin=subprocess.DEVNULL
        )
        return done.returncode, done.stdout, done.stderr

    # The client.

    def try_openstack(self, *arguments, cloud="cellshift"):
        self.commands += 1
        env = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
        env |= {"OS_CLIENT_CONFIG_FILE": str(self.data / "clouds.yaml"), "OS_CLOUD": cloud, "no_proxy": "127.0.0.1"}
        self.client = self.client or Client(self.program)
        return self.client.run([str(argument) for argument in arguments], env)

    def openstack(self, *arguments, cloud="cellshift"):
        """Runs the command, which must succeed; what it printed."""
        done = self.try_openstack(*arguments, cloud=cloud)
        if done.returncode != 0:
            raise Failed(f"`openstack {' '.join(map(str, arguments))}` exits with {done.returncode}: {done.stderr.strip() or done.stdout}")
        return done.stdout

    def ask(self, *arguments, cloud="cellshift"):
        """The same with -f json, parsed."""
        printed = self.openstack(*arguments, "-f", "json", cloud=cloud)
        try:
            return json.loads(printed)
        except json.JSONDecodeError as error:
            raise Failed(f"`openstack {' '.join(map(str, arguments))}` does not print JSON: {printed!r}") from error

    def admin(self, *arguments):
        return self.ask(*arguments, cloud="cellshift-admin")

    # Checks.

    def check(self, what, found, wanted):
        self.that(what, found == wanted, f"found {found!r}, wanted {wanted!r}")

    def that(self, what, holds, otherwise=""):
        if not holds:
            raise Failed(f"{what}: {otherwise}" if otherwise else what)
        self.checks += 1
        say(f"  ok: {what}")

    def until(self, what, condition, patience=30):
        deadline = time.monotonic() + patience
        while True:
            found = condition()
            if found:
                self.that(what, True)
                return found
            if time.monotonic() > deadline:
                raise Failed(f"{what}: not after {patience} s")
            time.sleep(0.3)
