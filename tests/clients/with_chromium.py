"""Headless Chromium on the demo's page, driven over its DevTools protocol.

One browser for all tests of a demo; it is ended, with all its processes, after the last of them.
The tests build on each other: the page is loaded once.
"""

import asyncio
import base64
import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.request

from helpers import Wrong, equal, has

try:
    import websockets
except ImportError:
    websockets = None

PROGRAM = shutil.which("chromium")
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
           "--disable-background-networking", "--disable-component-update", "--disable-sync",
           "--disable-dev-shm-usage", "--disable-extensions", "--disable-default-apps",
           "--no-default-browser-check", "--no-proxy-server", "--hide-scrollbars",
           "--remote-debugging-port=0", "--window-size=1280,1000"]
LIMIT = 30          # s for one thing to happen
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def missing():
    if not PROGRAM:
        return "chromium is not installed (Debian: chromium)"
    if not websockets:
        return "no websockets for this Python (Debian: python3-websockets)"
    return None


class Page:
    """One tab: commands, and what it reported meanwhile."""

    def __init__(self, socket, run):
        self.socket = socket
        self.run = run
        self.number = 0
        self.answers = {}
        self.errors = []        # console and network errors, exceptions
        self.requests = []      # every URL it asked for
        self.reader = asyncio.ensure_future(self.read())

    async def read(self):
        async for text in self.socket:
            self.take(json.loads(text))

    def take(self, message):
        what, about = message.get("method"), message.get("params", {})
        if "id" in message:
            future = self.answers.pop(message["id"], None)
            if future and not future.done():
                future.set_result(message)
        elif what == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.errors.append("console: %s" % [a.get("value", a.get("description"))
                                                for a in about["args"]])
        elif what == "Runtime.exceptionThrown":
            self.errors.append("exception: %s" % about["exceptionDetails"].get("text"))
        elif what == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.errors.append("log: %s" % about["entry"]["text"])
        elif what == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif what == "Network.webSocketCreated":
            self.requests.append(about["url"])

    async def command(self, method, **params):
        self.number += 1
        future = asyncio.get_running_loop().create_future()
        self.answers[self.number] = future
        await self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        answer = await asyncio.wait_for(future, LIMIT * self.run.factor)
        if "error" in answer:
            raise Wrong("%s: %s" % (method, answer["error"]))
        return answer["result"]

    async def value(self, expression):
        result = await self.command("Runtime.evaluate", expression=expression, returnByValue=True,
                                    awaitPromise=True)
        if "exceptionDetails" in result:
            raise Wrong("%s: %s" % (expression, result["exceptionDetails"]["text"]))
        return result["result"].get("value")

    async def until(self, expression, what):
        """Waits for it to become true."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + LIMIT * self.run.factor
        while not await self.value(expression):
            if loop.time() > limit:
                raise Wrong("in vain waited for " + what)
            await asyncio.sleep(0.1)

    async def click(self, selector):
        """A real click into the middle of an element."""
        x, y = await self.value(
            "(() => { const e = document.querySelector('%s'); e.scrollIntoView({block: 'center'});"
            " const r = e.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()" % selector)
        for kind in ("mousePressed", "mouseReleased"):
            await self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left",
                               clickCount=1)


class Browser:
    """A Chromium with an empty profile of its own."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="ioh-chromium-")
        self.process = subprocess.Popen(
            [PROGRAM, *OPTIONS, "--user-data-dir=" + os.path.join(self.folder, "profile"),
             "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=dict(os.environ, HOME=self.folder, XDG_CONFIG_HOME=self.folder,
                     XDG_CACHE_HOME=self.folder),
            start_new_session=True, preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))

    async def tab(self, limit):
        """The address of its tab's DevTools socket."""
        file = os.path.join(self.folder, "profile", "DevToolsActivePort")
        loop = asyncio.get_running_loop()
        until = loop.time() + limit
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while True:
            if self.process.poll() is not None:
                raise Wrong("chromium ended with code %d" % self.process.returncode)
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(file, encoding="ascii") as text:
                    port = int(text.readline())
                with opener.open("http://127.0.0.1:%d/json/list" % port, timeout=5) as answer:
                    tabs = [t for t in json.load(answer) if t["type"] == "page"]
                return tabs[0]["webSocketDebuggerUrl"]
            if loop.time() > until:
                raise Wrong("chromium did not open its DevTools port in time")
            await asyncio.sleep(0.05)

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


async def page_loads_without_errors(page):
    run = page.run
    for domain in ("Page", "Runtime", "Log", "Network"):
        await page.command(domain + ".enable")
    await page.command("Page.navigate", url=run.origin + "/")
    await page.until("document.readyState === 'complete' && !!window.demo", "the page")
    await page.until("demo.samples >= 2", "two samples of /live")
    equal(page.errors, [], "errors")


async def page_asks_nobody_but_its_origin(page):
    mine = ("http://%s/" % page.run.demo.tcp, "ws://%s/" % page.run.demo.tcp, "data:", "blob:")
    equal([u for u in page.requests if not u.startswith(mine)], [], "foreign requests")
    has([u.split("/", 3)[3] for u in page.requests if u.startswith(mine[1])], "live", "sockets")


async def page_fits_a_telephone(page):
    await page.command("Emulation.setDeviceMetricsOverride", width=390, height=844,
                       deviceScaleFactor=1, mobile=True)
    try:
        wide = await page.value("document.documentElement.scrollWidth")
        if wide > 390:
            raise Wrong("the page is %d wide on a screen of 390" % wide)
    finally:
        await page.command("Emulation.clearDeviceMetricsOverride")


async def page_moves_its_charts(page):
    drawn = "[...document.querySelectorAll('canvas')].map((c) => c.toDataURL()).join()"
    before, samples = await page.value(drawn), await page.value("demo.samples")
    if not before:
        raise Wrong("no canvas is drawn")
    await page.until("demo.samples >= %d" % (samples + 2), "more samples")
    if await page.value(drawn) == before:
        raise Wrong("no chart has changed after two samples")


async def page_chats_with_a_python_client(page):
    async with websockets.connect("ws://%s/chat" % page.run.demo.tcp) as other:
        await page.click("#chat-text")
        await page.command("Input.insertText", text="grüße from the page")
        await page.click("#chat-send")
        heard = await asyncio.wait_for(other.recv(), LIMIT * page.run.factor)
        equal(heard, "grüße from the page", "what the other hears")
        await page.until("demo.chat.includes('grüße from the page')", "the page's own message")
        await other.send("<b>hello page</b>")
        await page.until("demo.chat.includes('<b>hello page</b>')", "the other's message")
        shown = await page.value("document.querySelector('#chat-log').textContent")
        has(shown, "<b>hello page</b>", "chat log")


async def page_makes_load_without_errors(page):
    """The rate has to rise while it runs; the screenshot is taken then."""
    before = await page.value("demo.rate") or 0
    await page.click("#load")
    more = 100 // page.run.factor
    await page.until("demo.rate > %f" % (before + more), "%d requests per second more" % more)
    await page.value("window.scrollTo(0, 0)")
    shot = await page.command("Page.captureScreenshot", format="png")
    path = os.path.join(page.run.build, "tests", "demo.png")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as image:
        image.write(base64.b64decode(shot["data"]))
    if os.path.getsize(path) < 10000:
        raise Wrong("the screenshot has %d bytes only" % os.path.getsize(path))
    await page.until("document.querySelector('#load-result').textContent !== ''",
                     "the end of the load")
    has(await page.value("document.querySelector('#load-result').textContent"), "no error",
        "result of the load")
    # On a slow machine the five seconds are over before all of its WebSockets are open.
    equal([e for e in page.errors if "closed before the connection is established" not in e], [],
          "errors")


async def page_sends_a_form_with_awkward_names(page):
    """Names, file names and content come as the page meant them; quotes and line ends in names are
    percent-encoded (WHATWG HTML 4.10.21.8)."""
    sent = """(async () => {
        const form = new FormData(), bytes = new Uint8Array(300000);
        for (let i = 0; i < bytes.length; i++) bytes[i] = [13, 10, 45, 45, 0, i][i % 6];
        form.append('a"b\\r\\nc\\\\d', 'two\\nlines "and" \\u00e4');
        form.append('f', new File([bytes], 'C:\\\\x;y="z".bin', {type: 'image/png'}));
        form.append('empty', '');
        const answer = await fetch('/form', {method: 'POST', body: form});
        const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
        return [answer.status, await answer.json(),
                [...hash].map((b) => b.toString(16).padStart(2, '0')).join('')];
    })()"""
    status, form, digest = await page.value(sent)
    equal(status, 200, "status")
    named, file, empty = form["fields"]
    equal(named["name"], "a%22b%0D%0Ac\\d", "name")
    equal(named["value"].encode("latin-1").decode(), "two\r\nlines \"and\" \u00e4", "value")
    equal(file["filename"], "C:\\x;y=%22z%22.bin", "file name")
    equal((file["type"], file["bytes"], file["sha256"]), ("image/png", 300000, digest), "file")
    equal(empty, {"name": "empty", "value": ""}, "the empty field")


async def page_reads_compressed_answers(page):
    sizes = await page.value("""(async () => {
        const plain = [];
        for (const path of ['/stream?bytes=500000', '/stream?bytes=500000&chunked=1']) {
            const answer = await fetch(path);
            plain.push(answer.headers.get('content-encoding'), (await answer.text()).length);
        }
        return plain;
    })()""")
    equal(sizes, ["gzip", 500000, "gzip", 500000], "codings and lengths")


STEPS = (page_loads_without_errors, page_asks_nobody_but_its_origin, page_fits_a_telephone,
         page_moves_its_charts, page_chats_with_a_python_client, page_sends_a_form_with_awkward_names,
         page_reads_compressed_answers, page_makes_load_without_errors)
LATEST = {}     # demo's address: {name of a step: None or what was wrong}


async def all_steps(run, found):
    browser = Browser()
    try:
        address = await browser.tab(LIMIT * run.factor)
        async with websockets.connect(address, max_size=None, ping_interval=None) as socket:
            page = Page(socket, run)
            try:
                for step in STEPS:
                    found[step.__name__] = None
                    try:
                        await step(page)
                    except Exception as wrong:      # the next step may still tell something
                        found[step.__name__] = "%s" % (wrong or type(wrong).__name__)
            finally:
                page.reader.cancel()
    finally:
        browser.end()


def as_test(name):
    def test(run):
        if run.demo.tcp not in LATEST:
            LATEST.clear()
            found = LATEST[run.demo.tcp] = {}
            try:
                asyncio.run(all_steps(run, found))
            except Wrong as wrong:
                found.setdefault(STEPS[0].__name__, str(wrong))
        found = LATEST[run.demo.tcp]
        wrong = found.get(name, "the browser did not come that far")
        if wrong is not None:
            raise Wrong(wrong)
    test.__name__ = name
    return test


TESTS = [as_test(step.__name__) for step in STEPS]
