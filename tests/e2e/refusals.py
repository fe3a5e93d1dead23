"""A start that cannot succeed: one clear sentence and an exit code that is not 0, and nothing else is harmed."""

import os
import socket


def run(cloud):
    cloud.start()
    a_second_process_on_the_same_data(cloud)
    cloud.stop()
    a_port_in_use(cloud)
    an_unwritable_data_directory(cloud)
    an_unknown_key(cloud)


def refused(cloud, what, words, *arguments, lines=1):
    code, printed, complaint = cloud.run("serve", *arguments)
    cloud.that(f"{what}: the exit code is not 0", code != 0, f"it is {code}; {printed}{complaint}")
    said = [line for line in complaint.splitlines() if line.strip()]
    if lines:
        cloud.that(f"{what}: one sentence", len(said) == lines, complaint)
    for word in words:
        cloud.that(f"{what}: it says {word!r}", word in complaint, complaint)
    cloud.that(f"{what}: it does not panic", "panicked" not in complaint, complaint)


def a_second_process_on_the_same_data(cloud):
    refused(cloud, "a data directory in use", ["in use", str(cloud.data)], "--data-dir", cloud.data, "--listen", "127.0.0.1:0")
    cloud.check("the first process does not notice", cloud.openstack("token", "issue", "-f", "value", "-c", "id") != "", True)


def a_port_in_use(cloud):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(cloud, "a port in use", [str(port), "in use"], "--data-dir", cloud.work / "other", "--listen", f"127.0.0.1:{port}")


def an_unwritable_data_directory(cloud):
    file = cloud.work / "a-file"
    file.write_text("")
    below = file / "data"
    refused(cloud, "a data directory that cannot be made", [str(below)], "--data-dir", below, "--listen", "127.0.0.1:0")
    if os.getuid() != 0:  # Root may write anywhere.
        locked = cloud.work / "read-only"
        locked.mkdir(mode=0o500)
        refused(cloud, "a read-only data directory", [str(locked)], "--data-dir", locked, "--listen", "127.0.0.1:0")


def an_unknown_key(cloud):
    config = cloud.work / "wrong.toml"
    config.write_text("[migration]\nresize_confirm_windw = 10\n")
    words = ["resize_confirm_windw", str(config)]
    # The place in the file is shown below the sentence.
    refused(cloud, "an unknown key", words, "--config", config, "--data-dir", cloud.work / "other", lines=None)
