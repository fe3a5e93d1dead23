"""An empty root: a directory with the libraries of the programs that are put into it and nothing else, in which programs run.

A root with a package manager has the shell, dpkg and the programs of the packages' scripts. Its `apt-get` and `adduser` are stand-ins that do
what one install needs, so that no network is asked.
"""

import os
import pathlib
import re
import shutil
import subprocess

from cloud import Failed

# A first user that a package makes gets this id.
USER_ID = 990
PACKAGE_PROGRAMS = ["sh", "dpkg", "dpkg-deb", "dpkg-split", "tar", "diff", "rm", "install", "getent"]
# The packages that the root has: an install fails if a package depends on another one. Each with what tells its libraries' names.
BASE_PACKAGES = {"libc6": r"/lib[^/]*(/[^/]*-linux-gnu[^/]*)?/[^/]+\.so[.\d]*$", "libgcc-s1": r"/libgcc_s\.so[.\d]*$", "adduser": r"$^"}
APT_GET = """#!/bin/sh
# Installs the packages whose files are named, by dpkg, which refuses those whose dependencies are missing.
set -e
[ "$1" != update ] || exit 0
for argument; do
    case "$argument" in *.deb) dpkg --force-bad-path --install "$argument" ;; esac
done
"""
ADDUSER = f"""#!/bin/sh
# adduser --system --group --home HOME --no-create-home NAME
set -e
[ "$1 $2 $3 $5" = "--system --group --home --no-create-home" ]
echo "$6:x:{USER_ID}:" >>/etc/group
echo "$6:x:{USER_ID}:{USER_ID}::$4:/usr/sbin/nologin" >>/etc/passwd
"""


def as_root():
    """The words before a command that only root may run."""
    return [] if os.geteuid() == 0 else ["sudo"]


class Root:
    def __init__(self, directory):
        self.directory = directory
        for name in ["bin", "sbin", "lib", "lib64"]:
            (directory / "usr" / name).mkdir(parents=True)
            (directory / name).symlink_to(f"usr/{name}")
        for name in ["tmp", "var/tmp"]:
            (directory / name).mkdir(parents=True)
            (directory / name).chmod(0o1777)

    def add_libraries(self, program):
        """Copies the libraries that the program is linked with."""
        linked = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
        for library in re.findall(r"(?:=> |^\s*)(/\S+)", linked, re.MULTILINE):
            self.add_library(library)

    def add_library(self, library):
        target = self.directory / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library, target)
        target.chmod(0o755)

    def add_program(self, name):
        program = shutil.which(name)
        if not program:
            raise Failed(f"{name} is not here, which an empty root needs")
        shutil.copy(program, self.directory / "usr/bin" / name)
        self.add_libraries(program)

    def add_text(self, path, text, mode=0o644):
        target = self.directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)

    def add_package_manager(self):
        for name in PACKAGE_PROGRAMS:
            self.add_program(name)
        for name, libraries in BASE_PACKAGES.items():
            for path in files_of(name):
                if re.search(libraries, path) and os.path.isfile(path):
                    self.add_library(path)
        self.add_text("usr/bin/apt-get", APT_GET, 0o755)
        self.add_text("usr/sbin/adduser", ADDUSER, 0o755)
        self.add_text("dev/null", "", 0o666)
        self.add_text("etc/passwd", "root:x:0:0::/root:/bin/sh\n")
        self.add_text("etc/group", "root:x:0:\n")
        (self.directory / "var/lib/dpkg/info").mkdir(parents=True)
        (self.directory / "var/lib/dpkg/updates").mkdir()
        self.add_text("var/lib/dpkg/status", "\n".join(installed(name) for name in BASE_PACKAGES))

    def user(self, name):
        """The ids of a user of the root."""
        for line in (self.directory / "etc/passwd").read_text().splitlines():
            fields = line.split(":")
            if fields[0] == name:
                return f"{fields[2]}:{fields[3]}"
        raise Failed(f"the root has no user {name}")

    def run(self, *command, user="0:0"):
        """Runs a command in the root and returns its output."""
        words = [*as_root(), "env", "-i", "PATH=/usr/sbin:/usr/bin", "chroot", f"--userspec={user}", self.directory, *command]
        ended = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)
        if ended.returncode != 0:
            raise Failed(f"{' '.join(map(str, command))} ends with {ended.returncode}:\n{ended.stdout}")
        return ended.stdout


def files_of(package):
    """The files that this machine has of a package, if it has the package."""
    listed = subprocess.run(["dpkg-query", "--listfiles", package], capture_output=True, text=True)
    return listed.stdout.splitlines()


def installed(package):
    """The entry of an installed package in dpkg's list, with this machine's version if it has the package."""
    query = subprocess.run(["dpkg-query", "--show", "--showformat=${Version}", package], capture_output=True, text=True)
    architecture = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout.strip()
    return f"""Package: {package}
Status: install ok installed
Maintainer: nobody
Architecture: {architecture}
Version: {query.stdout or "3.0"}
Description: as on this machine
"""
