"""A real Chromium for the tests of pages: no network, any width, light or dark, and what its console said."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--force-prefers-reduced-motion",
    "--hide-scrollbars",
    "--lang=en-US",
)


class Browser:
    """One browser with one page."""

    def __init__(self, profile: Path) -> None:
        options = webdriver.ChromeOptions()
        binary = next(
            path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))
        )
        options.binary_location = binary
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = shutil.which("chromedriver")
        assert driver is not None
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))

    def open(
        self, page: Path | str, *, width: int = 1280, height: int = 1600, dark: bool = False, script: bool = True
    ) -> None:
        """Opens a file or an address on a screen of this size."""
        self.command("Emulation.setScriptExecutionDisabled", value=not script)
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.colour_scheme(dark=dark)
        self.driver.get_log("browser")
        self.driver.get(page if isinstance(page, str) else page.as_uri())

    def colour_scheme(self, *, dark: bool) -> None:
        """Makes the reader prefer dark or light colours, from now on."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])

    def run(self, script: str, *arguments: Any) -> Any:
        """Runs a function body in the page and returns its value."""
        return self.driver.execute_script(script, *arguments)

    def command(self, name: str, **arguments: Any) -> Any:
        """Sends a command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, arguments)

    def complaints(self) -> list[str]:
        """Returns what the console said since the page was opened."""
        messages = [str(entry["message"]) for entry in self.driver.get_log("browser")]
        return [message for message in messages if not message.startswith("chrome://")]  # Chromium's own pages

    def wait_for(self, holds: Callable[[], bool], seconds: float = 30.0) -> None:
        """Waits until something holds.

        Raises:
            TimeoutException: it does not.
        """
        WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(lambda _: holds())

    def picture(self, path: Path, height: int | None = None) -> None:
        """Takes a picture of the page, of all of it without a height."""
        width = self.run("return innerWidth")
        whole = height or self.run("return document.documentElement.scrollHeight")
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=whole, deviceScaleFactor=1, mobile=width < 600
        )
        self.driver.save_screenshot(str(path))

    def close(self) -> None:
        """Ends the browser."""
        self.driver.quit()
