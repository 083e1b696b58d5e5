"""A served page and a real Chromium. Any console error, page error or request to another host fails the test."""

import os
import shutil
import threading
from urllib.parse import urlsplit

import pytest

CHROMIUM = os.environ.get("SPECSCOPE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
HANG_MS = 600_000  # a guard against hanging, not a measure of speed
QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@pytest.fixture(scope="session")
def chromium():
    """The browser, or a skip that says what is missing; with SPECSCOPE_REQUIRE_BROWSER=1 a failure."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    if sync_playwright is None or CHROMIUM is None:
        missing = "playwright is not installed" if sync_playwright is None else "no Chromium was found on PATH"
        sentence = f"the browser tests need a real Chromium driven by playwright, and {missing}"
        if os.environ.get("SPECSCOPE_REQUIRE_BROWSER") == "1":
            pytest.fail(sentence)
        pytest.skip(sentence)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET, timeout=HANG_MS)
        yield browser
        browser.close()


class Server:
    """One page on a free port, and the cancel flags of the runs that it started."""

    def __init__(self, pair, race):
        from app import create_app

        self.cancels: list[threading.Event] = []

        def watched(*args, cancel, **kwargs):
            self.cancels.append(cancel)
            return race(*args, cancel=cancel, **kwargs)

        self.page = create_app(pair, race=watched)
        _, self.url, _ = self.page.launch(server_name="127.0.0.1", prevent_thread_lock=True)

    def close(self):
        self.page.close()


# No page outlives its tests: the event loops of twenty idle ones slow all that the process does after them.
@pytest.fixture
def serve(embedded_pair):
    """serve(race): a running page on the real weights; `race` stands in for the engine's."""
    servers = []

    def start(race):
        servers.append(Server(embedded_pair, race))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def server(embedded_pair):
    """One running page with the engine's own race, for every test of a file. What a step costs here is measured before,
    as when the page is really launched: it takes longer than a run."""
    import engine
    from app.main import _warm_up

    _warm_up(embedded_pair)
    server = Server(embedded_pair, engine.race)
    yield server
    server.close()


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """Two small scenarios in the place of those that ship: see helpers/finance.py."""
    from helpers.finance import ship

    folder = tmp_path_factory.mktemp("scenarios")
    ship(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pricing.scenario_file.SHIPPED", folder)
        yield folder


@pytest.fixture(scope="module")
def finance_server(shipped):
    """A page over a pair without weights, whose runs are made by hand: the finance tabs need no more."""
    from fakes import PAIR, FakeRace, drafted_run

    server = Server(PAIR, lambda *args, **kwargs: FakeRace(drafted_run(12))(*args, **kwargs))
    yield server
    server.close()


@pytest.fixture
def forwards(embedded_pair, monkeypatch):
    """A list that grows by one with every forward that the target really runs."""
    runner, run = type(embedded_pair.target), []
    real = runner.read  # what every forward of a run goes through

    def counted(*args, **kwargs):
        run.append(1)
        return real(*args, **kwargs)

    monkeypatch.setattr(runner, "read", counted)
    return run


@pytest.fixture
def unhurried(embedded_pair, monkeypatch):
    """Until this event is set, every forward of a run takes half a second longer: however slow the browser is beside
    the engine, it finds the run under way."""
    runner, over = type(embedded_pair.target), threading.Event()
    real = runner.read

    def slow(*args, **kwargs):
        over.wait(0.5)
        return real(*args, **kwargs)

    monkeypatch.setattr(runner, "read", slow)
    yield over
    over.set()


@pytest.fixture
def visit(chromium):
    """visit(server, **context options) -> a loaded page under watch."""
    faults, contexts = [], []

    def open_page(server, query="", **options):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, "locale": "en-US", **options})
        context.set_default_timeout(HANG_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: faults.append(f"console {m.type}: {m.text}") if m.type == "error" else None)
        page.on("pageerror", lambda e: faults.append(f"page error: {e}"))
        page.on("dialog", lambda d: (faults.append(f"dialog: {d.message}"), d.dismiss()))
        page.on("request", lambda r: faults.append(f"foreign request: {r.url}") if _foreign(r.url) else None)
        page.goto(server.url + query)
        page.wait_for_selector("#sv-run")
        page.wait_for_selector(".sv-empty-head")
        page.wait_for_function("document.querySelector('#sv-cost-note .sv-root')?.textContent.length > 0")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not faults, "\n".join(faults)


def _foreign(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme not in ("data", "blob", "about") and parts.hostname != "127.0.0.1"
