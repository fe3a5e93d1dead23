"""`cellshift top` in a terminal of its own (a pty), with keys as a person types them."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios

from cloud import Cloud, Failed
from page_stories.api import Api, passwords

# The copy of a guest's memory takes two minutes, so that its move is in flight until the test is over.
CONFIG = """
[compute.live_migration]
bandwidth_mib = 4
"""
# Each drawing moves the cursor over blank cells, so a move stands for a blank.
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LEAVES_SCREEN = "\x1b[?1049l"
KEYS = {"down": "\x1b[B", "escape": "\x1b", "enter": "\r"}
LINES = 50


class Terminal:
    """A command in a terminal, with all that it has drawn since the screen was drawn anew."""

    def __init__(self, *command):
        self.columns, self.drawn = 160, ""
        self.screen, inner = pty.openpty()
        self.resize()
        self.process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, start_new_session=True)
        os.close(inner)

    def resize(self):
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, self.columns, 0, 0))

    def draw_anew(self):
        """Changes the width, after which the whole screen is drawn and not the difference alone."""
        self.columns = 321 - self.columns
        self.resize()
        os.kill(self.process.pid, signal.SIGWINCH)

    def read(self, patience):
        """Takes what is drawn within so many seconds; false if nothing is."""
        if not select.select([self.screen], [], [], patience)[0]:
            return False
        try:
            self.drawn += os.read(self.screen, 65536).decode(errors="replace")
        except OSError:
            return False
        return True

    def text(self):
        return re.sub(r"\s+", " ", CONTROL.sub(" ", self.drawn))

    def sees(self, cloud, claim, text, patience=30):
        """Waits until the text is on the screen."""

        def is_drawn():
            self.drawn = ""
            self.draw_anew()
            while self.read(0.3):
                pass
            return text in self.text()

        cloud.until(f"in the terminal {claim}", is_drawn, patience)

    def press(self, key):
        """Types a key, and waits for the next drawing: a change of the width at the same moment would delay the key."""
        os.write(self.screen, KEYS.get(key, key).encode())
        self.read(5)

    def ends(self, cloud):
        self.drawn = ""
        self.press("q")
        cloud.check("in the terminal q leaves top", self.process.wait(timeout=30), 0)
        while self.read(0):
            pass
        cloud.that("the terminal has its former screen again", LEAVES_SCREEN in self.drawn)
        os.close(self.screen)



def run(binary, work):
    """Looks at a live migration of a cloud of its own. Returns the number of checks."""
    work.mkdir()
    cloud = Cloud(binary, None, work)
    try:
        config = work / "slow.toml"
        config.write_text(CONFIG)
        cloud.start("--config", config)
        api = Api(cloud, "admin", passwords(cloud)[1], "admin")
        server, _ = api.make_server("traveller")
        cloud.until("the server is active", lambda: api.server(server)["status"] == "ACTIVE")
        api.act(server, "os-migrateLive", {"host": None, "block_migration": "auto"})
        look_at_a_move(cloud, "traveller")
        return cloud.checks
    finally:
        cloud.kill()


def look_at_a_move(cloud, server):
    """Selects the move of the server that is in flight, reads its journal, and filters the lists."""
    top = Terminal(cloud.binary, "top", "--data-dir", cloud.data)
    try:
        top.sees(cloud, "what waits for people stands first", "need an operator")
        top.sees(cloud, "the move is listed", server)
        top.press("down")
        top.sees(cloud, "the arrow selects it", "▸")
        top.press("enter")
        top.sees(cloud, "its journal opens", f"({server}), began")
        top.press("escape")
        top.sees(cloud, "the lists are there again", "/: filter")
        top.press("/")
        top.press("nobody")
        top.press("enter")
        top.sees(cloud, "the filter leaves nothing", "No move in flight fits the filter.")
        top.press("escape")
        top.sees(cloud, "the filter is gone", server)
        top.ends(cloud)
    except (Failed, subprocess.TimeoutExpired) as failure:
        top.process.kill()
        raise Failed(f"{failure}\nthe screen: {top.text()}") from failure
