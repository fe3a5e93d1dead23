"""Is the command `openstack` for a suite: has it performed by forking_client.py, whose socket lies beside this file.

It is started with each command, so it imports little.
"""

import json
import os
import pathlib
import socket
import sys

with socket.socket(socket.AF_UNIX) as client:
    client.connect(str(pathlib.Path(sys.argv[0]).resolve().parent / "socket"))
    request = {"arguments": sys.argv[1:], "environment": dict(os.environ), "directory": os.getcwd()}
    socket.send_fds(client, [json.dumps(request).encode() + b"\n"], [0, 1, 2])
    code = client.recv(1)
# Without an answer the command was killed.
sys.exit(code[0] if code else 1)
