"""The commands of README.md's first migration and of docs/TOUR.md, typed as they stand on the pages: each block must succeed."""

import os
import pathlib
import re
import shlex
import subprocess
import time

from cloud import PATIENCE, Cloud, Failed

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FIRST_MIGRATION = (ROOT / "README.md", "## A first migration in five minutes")
TOUR = (ROOT / "docs" / "TOUR.md", "## From the first start to the audit")
PROGRAM = "cargo run --"


def blocks(page, section):
    """The indented blocks of the section, in order."""
    text = page.read_text().split(section)[1].split("\n## ")[0]
    return [re.sub("(?m)^    ", "", found) for found in re.findall(r"(?m)(?:^    .+\n)+", text)]


def run(binary, openstack, work):
    """Follows both sections, each over a service of its own; gives the clouds, whose checks and commands count."""
    first = Cloud(binary, openstack, work / "first")
    tour = Cloud(binary, openstack, work / "tour")
    tour.data = tour.work / "cellshift-data"
    for cloud, follow in ((first, follow_first_migration), (tour, follow_tour)):
        cloud.work.mkdir(parents=True)
        try:
            follow(cloud)
        except (Failed, subprocess.TimeoutExpired) as failure:
            raise Failed(f"{failure}\nThe end of this service's own log:\n{cloud.log_tail()}") from failure
        finally:
            cloud.kill()
    return first, tour


def follow_first_migration(cloud):
    serve, *rest = blocks(*FIRST_MIGRATION)
    cloud.check("the README's first block starts the service", serve.strip(), f"{PROGRAM} serve --dev")
    cloud.start_dev()
    everything = "".join(typed(cloud, printed_export(cloud), block) for block in rest)
    for words in ("ACTIVE", "Complete", "resize", "confirmResize"):
        cloud.that(f"the first migration shows {words}", words in everything, everything)
    cloud.stop()


def printed_export(cloud):
    """The line that the README has typed, which the service prints when it serves already."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        export = re.search(r"(?m)^ *(export OS_CLIENT_CONFIG_FILE=.*)\n", cloud.log.read_text())
        if export:
            return export.group(1) + "\n"
        time.sleep(0.1)
    raise Failed("the service does not print the line that the README has typed")


def follow_tour(cloud):
    serve, *rest = blocks(*TOUR)
    cloud.check("the tour's first block starts the service", serve.strip(), f"{PROGRAM} serve")
    cloud.start()
    exports = everything = ""
    for block in rest:
        everything += typed(cloud, exports, block)
        # All blocks are typed into one terminal: a variable that one exports is there for the next.
        exports += "".join(line + "\n" for line in block.splitlines() if line.startswith("export "))
    for words in ("ACTIVE", "VERIFY_RESIZE", "cell2-host", "resize", "allocation", "clean: no violations"):
        cloud.that(f"the tour shows {words}", words in everything, everything)
    cloud.stop()


def typed(cloud, exports, block):
    """What a shell prints for the block; UUID is the beginning of the newest move's id."""
    code, listed, _ = cloud.run("migrations", "--data-dir", cloud.data) if "UUID" in block else (0, "", "")
    move = re.search(r"^[0-9a-f]{8}\b", listed, re.MULTILINE)
    if "UUID" in block:
        cloud.that("the tour's move is listed", code == 0 and move is not None, listed)
        block = block.replace("UUID", move.group())
    env = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
    env |= {"PATH": f"{pathlib.Path(cloud.program).parent}:{env['PATH']}", "no_proxy": "127.0.0.1"}
    script = "set -eu\n" + exports + block.replace(PROGRAM, shlex.quote(str(cloud.binary)))
    cloud.commands += sum("openstack" in line for line in block.splitlines())
    done = subprocess.run(
        ["bash", "-c", script], cwd=cloud.work, env=env, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL
    )
    cloud.that(f"the block succeeds: {block.splitlines()[0]}", done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}")
    return done.stdout
