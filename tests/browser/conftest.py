"""JupyterLab as a person sees it: a server over a copy of the course, and Debian's chromium without a window.

Screenshots of what was seen are left in build/screenshots/.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "build" / "screenshots"
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},  # all cells are in the page
}
START_S = 400  # for the server on a busy machine, and for its end
MISSING = "no chromium on this machine (apt-get install chromium): the browser tests were not run"


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser's path; skips where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not found:
        pytest.skip(MISSING)
    return found


@pytest.fixture(scope="session")
def course(tmp_path_factory) -> Path:
    """A copy of the course in which students and instructors may write."""
    folder = tmp_path_factory.mktemp("course")
    for name in ("lessons", "exercises", "solutions"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.py"))
    settings = (ROOT / "nbgrader_config.py").read_text() + f"c.Exchange.root = {str(folder / 'exchange')!r}\n"
    (folder / "nbgrader_config.py").write_text(settings)
    (folder / "exchange").mkdir(mode=0o777)
    (folder / "exchange").chmod(0o777)
    return folder


@pytest.fixture(scope="session")
def runtime():
    """The server's own folder. Its path is short, for sockets of kernels: see conftest.py at the root."""
    with tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def lab(course, runtime):
    """The address of a JupyterLab over the course, and its token."""
    env = {**os.environ, "JUPYTER_RUNTIME_DIR": str(runtime), "HOME": str(runtime), "JUPYTER_CONFIG_DIR": str(runtime)}
    env |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    env |= {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")}  # compiled code
    options = ["--no-browser", "--allow-root", "--port=0", "--ServerApp.token=camp", f"--ServerApp.root_dir={course}"]
    settings = runtime / "lab" / "settings"
    settings.mkdir(parents=True)
    (settings / "overrides.json").write_text(json.dumps(SETTINGS))
    env["JUPYTERLAB_SETTINGS_DIR"] = str(runtime / "user-settings")
    options += [f"--LabApp.app_settings_dir={settings}", "--KernelManager.transport=ipc"]
    with (runtime / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options], cwd=course, env=env, stdout=log, stderr=log
        )
    try:
        end = time.monotonic() + START_S
        while not (url := _address(runtime)):
            assert server.poll() is None and time.monotonic() < end, (runtime / "log").read_text()[-4000:]
            time.sleep(0.2)  # the file is the server's only sign
        yield url
    finally:
        server.terminate()
        server.wait(START_S)


def _address(runtime: Path) -> str:
    """What the server says of itself; "" until it has said all of it."""
    for path in runtime.glob("jpserver-*.json"):
        with contextlib.suppress(json.JSONDecodeError):
            return json.loads(path.read_text())["url"]
    return ""


@pytest.fixture(scope="session")
def browser(chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture
def page(browser, lab, request):
    """A window of a laptop's size, signed in. How it looked at the end of the test is kept too."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(120_000)
    window = context.new_page()
    window.goto(f"{lab}lab?token=camp")
    window.wait_for_selector("#jp-main-dock-panel")
    yield window
    window.screenshot(path=SHOTS / f"end-{request.node.name.replace('/', '-')}.png")
    kernels = f"{lab}api/kernels"
    token = {"Authorization": "token camp"}
    for kernel in window.request.get(kernels, headers=token).json():  # each holds half a gigabyte
        window.request.delete(f"{kernels}/{kernel['id']}", headers=token)
    context.close()


@pytest.fixture
def shot():
    """shot(page, name): keep a picture of the window."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    return lambda page, name: page.screenshot(path=SHOTS / f"{name}.png")
