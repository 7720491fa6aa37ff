"""Debian's chromium, driven by selenium: the browser of tests and benchmarks of the explorer."""

import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage --window-size=1280,900"
)


def start_browser(profile):
    """A browser without a window, whose profile lies in a folder that may be thrown away."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS.split(), f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(CHROMEDRIVER))
