"""Runs commands of the real openstack client, each in a fork of this process, which has the client's modules loaded: starting Python anew
takes longer than most commands.

Reads requests from standard input, one JSON document on each line: {"arguments": [...], "environment": {...}}. Answers each with one line:
{"returncode": ..., "stdout": ..., "stderr": ...}.

With the path of a socket it serves the command openstack of a suite instead (as_openstack.py), several at once: a request comes with the
caller's standard files and has its directory, and the answer is the command's code in one byte.
"""

import importlib
import importlib.util
import json
import os
import pkgutil
import signal
import socket
import sys
import tempfile
import traceback

sockets = sys.argv[1:]
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
    # A suite's environment has only the client.
    for name in [name for name in COMMANDS if importlib.util.find_spec(name.partition(".")[0])]:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            importlib.import_module(module.name)


def perform(request, files):
    """Performs the command in this fork with these standard files, and returns its code."""
    for standard, file in enumerate(files):
        os.dup2(file, standard)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["openstack", *request["arguments"]]
    try:
        code = shell.main(request["arguments"])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code or 0


def run(request):
    with open(os.devnull) as nothing, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        child = os.fork()
        if child == 0:
            os._exit(perform(request, [file.fileno() for file in (nothing, stdout, stderr)]))
        _, status = os.waitpid(child, 0)
        stdout.seek(0)
        stderr.seek(0)
        return {
            "returncode": os.waitstatus_to_exitcode(status),
            "stdout": stdout.read().decode(errors="replace"),
            "stderr": stderr.read().decode(errors="replace"),
        }


def serve(path):
    """Answers at a socket until the process is ended."""
    # Nobody waits for the forks.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        while True:
            caller, _ = listener.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os._exit(answer(caller))
            caller.close()


def answer(caller):
    text, files, _, _ = socket.recv_fds(caller, 1 << 20, 3)
    while not text.endswith(b"\n"):
        text += caller.recv(1 << 20)
    request = json.loads(text)
    os.chdir(request["directory"])
    code = perform(request, files)
    caller.sendall(bytes([code & 0xFF]))
    return code


def main():
    load()
    if sockets:
        serve(sockets[0])
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
