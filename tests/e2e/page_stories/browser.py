"""The page in chromium: finds what a user would find, and waits for what a user would wait for."""

import importlib.util
import os
import pathlib
import shutil
import time

from cloud import Failed
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from target import ROOT

SHOTS = ROOT / "docs" / "ui"
PATIENCE = 40
WIDTHS = (1400, 390)
# Answers that the stories provoke.
EXPECTED = ("401", "403", "404", "409", "503", "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE")


def program(*names):
    found = next(filter(None, map(shutil.which, names)), None)
    if not found:
        raise Failed(f"{names[0]} is not here: install Debian's chromium and chromium-driver")
    return found


class Page:
    def __init__(self, cloud):
        self.cloud = cloud
        self.root = f"http://127.0.0.1:{cloud.port}/ui/"
        options = webdriver.ChromeOptions()
        options.binary_location = program("chromium", "chromium-browser", "google-chrome")
        switches = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--force-color-profile=srgb", "--no-proxy-server"]
        for switch in [*switches, "--window-size=1280,900", f"--user-data-dir={cloud.work / 'browser'}"]:
            options.add_argument(switch)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(program("chromedriver")))
        spec = importlib.util.find_spec("axe_playwright_python")
        self.axe = (pathlib.Path(spec.origin).parent / "axe.min.js").read_text()
        self.judged = []

    def quit(self):
        self.driver.quit()

    def describe(self):
        """What a failure shows: the address, the text, and the console."""
        try:
            console = "\n".join(entry["message"] for entry in self.driver.get_log("browser"))
            return f"at {self.driver.current_url}\n{self.text()}\n{console}"
        except WebDriverException as error:
            return f"the browser does not tell: {error}"

    # Where the user is.

    def go(self, address, title=None):
        self.driver.get(f"{self.root}#{address}")
        if title is not None:
            self.until(f"the page {address} has its title", lambda: title in self.find("main h1").text)

    def at(self):
        return self.driver.current_url.partition("#")[2]

    def log_in(self, user, password, project):
        self.until("the login is asked for", lambda: self.all("#login"))
        for name, text in (("user", user), ("project", project), ("password", password)):
            box = self.find(f"#login-{name}")
            box.clear()
            box.send_keys(text)
        self.find("#login button").click()

    # What the user sees and does.

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def find(self, selector):
        found = self.all(selector)
        if not found:
            raise Failed(f"there is no {selector}")
        return found[0]

    def text(self, selector="body"):
        return "\n".join(element.text for element in self.all(selector))

    def rows(self, caption):
        """The texts of a table's rows."""
        script = """return [...document.querySelectorAll("table")].filter((table) => table.caption?.textContent.startsWith(arguments[0]) && !table.hidden)
            .flatMap((table) => [...table.tBodies[0].rows].map((row) => row.innerText.replace(/\\s+/g, " ")))"""
        return self.driver.execute_script(script, caption)

    def sees(self, what, text, selector="main", patience=PATIENCE):
        self.until(what, lambda: text in self.text(selector), patience)

    def press(self, selector):
        """Presses a button that may be drawn anew at that moment."""
        self.until(f"{selector} can be pressed", lambda: self.pressed(selector))

    def pressed(self, selector):
        for element in self.all(selector):
            if element.is_displayed() and element.is_enabled():
                element.click()
                return True
        return False

    def until(self, what, condition, patience=PATIENCE):
        def seen():
            try:
                return condition()
            except (StaleElementReferenceException, Failed):
                return False

        deadline = time.monotonic() + patience
        while not (found := seen()):
            if time.monotonic() > deadline:
                raise Failed(f"{what}: not after {patience} s")
            time.sleep(0.1)
        self.cloud.that(what, True)
        return found

    # What the page is judged by.

    def judge(self, name, shot=True):
        """Looks at the page wide and narrow: it fits, and axe-core has no serious objection in light and in dark. Takes the picture."""
        for width in WIDTHS:
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600})
            self.until(f"{name} fits {width} pixels", lambda width=width: self.driver.execute_script("return document.documentElement.scrollWidth <= arguments[0]", width))
            self.cloud.that(f"the header of {name} has one line at {width} pixels", self.driver.execute_script("return document.getElementById('top').offsetHeight") < 64)
            for theme in ("dark", "light"):
                self.cloud.check(f"axe-core finds nothing serious: {name}, {width} pixels, {theme}", self.objections(theme), [])
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        if shot:
            self.picture(name)
        self.driver.execute_script("delete document.documentElement.dataset.theme")
        self.judged.append(name)

    def picture(self, name):
        """Takes the picture for the documents, if they are to be made anew."""
        self.driver.execute_script("scrollTo(0, 0); document.getElementById('told').replaceChildren()")
        if os.environ.get("CELLSHIFT_PAGE_SHOTS"):
            SHOTS.mkdir(exist_ok=True)
            self.driver.save_screenshot(str(SHOTS / f"{name}.png"))

    def objections(self, theme):
        """The serious objections of axe-core in a theme, with the elements that they name."""
        self.driver.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
        self.driver.execute_script(self.axe)
        script = "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then((report) => done(report.violations), (error) => done([{id: String(error)}]))"
        violations = self.driver.execute_async_script(script)
        return [(one["id"], [node["html"][:160] for node in one.get("nodes", [])[:3]]) for one in violations if one.get("impact") in (None, "serious", "critical")]

    def console_is_silent(self, what):
        """What is normal leaves no error in the browser's log."""
        entries = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        self.cloud.check(f"{what} logs no error", entries, [])

    def console_is_quiet(self):
        """No script failed, and the policy refused nothing."""
        entries = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        self.cloud.check("the console has no errors", [entry for entry in entries if not any(word in entry for word in EXPECTED)], [])
