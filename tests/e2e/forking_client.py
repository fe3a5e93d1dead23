"""Runs commands of the real openstack client, each in a fork of this process, which has the client's modules loaded: starting Python anew
takes longer than most commands.

Reads requests from standard input, one JSON document on each line: {"arguments": [...], "environment": {...}}. Answers each with one line:
{"returncode": ..., "stdout": ..., "stderr": ...}.
"""

import importlib
import json
import os
import pkgutil
import sys
import tempfile
import traceback

# The client takes its name from here when it is imported.
sys.argv = ["openstack"]
from openstackclient import shell  # noqa: E402

# The packages whose modules have the commands.
COMMANDS = [
    "openstackclient.common",
    "openstackclient.compute.v2",
    "openstackclient.identity.v3",
    "openstackclient.image.v2",
    "openstackclient.network.v2",
    "openstackclient.volume.v3",
    "osc_placement.resources",
]


def load():
    for name in COMMANDS:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            importlib.import_module(module.name)


def become(request, stdout, stderr):
    """Turns this fork into the command, and ends with its code."""
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(stdout.fileno(), 1)
    os.dup2(stderr.fileno(), 2)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["openstack", *request["arguments"]]
    try:
        code = shell.main(request["arguments"])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run(request):
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        child = os.fork()
        if child == 0:
            become(request, stdout, stderr)
        _, status = os.waitpid(child, 0)
        stdout.seek(0)
        stderr.seek(0)
        return {
            "returncode": os.waitstatus_to_exitcode(status),
            "stdout": stdout.read().decode(errors="replace"),
            "stderr": stderr.read().decode(errors="replace"),
        }


def main():
    load()
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
