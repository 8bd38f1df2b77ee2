"""Opens a page in a real browser and reads what a person would see.

Drives headless Chromium through its DevTools protocol with aiohttp's websocket client.
"""

import asyncio
import base64
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import aiohttp

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--remote-debugging-address=127.0.0.1",
    "--remote-debugging-port=0",
)
_DEADLINE_SECONDS = 60.0

Theme = Literal["light", "dark"]


def find_chromium() -> str | None:
    """Return the path of an installed Chromium or Chrome, None if there is none."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


@dataclass(slots=True)
class Page:
    """An open tab: what it requested and complained of, and what its scripts see."""

    _socket: aiohttp.ClientWebSocketResponse
    _session_id: str = ""
    _last_id: int = 0
    requests: list[str] = field(default_factory=list)
    """Every URL requested, the page's own file included."""
    complaints: list[str] = field(default_factory=list)
    """Console errors and warnings, uncaught exceptions, and what a policy refused."""
    _loaded: bool = False

    async def open(self, url: str) -> Self:
        """Load the page and wait until it is complete."""
        self._loaded = False
        await self.call("Page.navigate", url=url)
        async with asyncio.timeout(_DEADLINE_SECONDS):
            while not self._loaded:
                self._note(await self._socket.receive_json())
        return self

    async def emulate(
        self,
        *,
        width: int = 1280,
        height: int = 900,
        theme: Theme = "light",
        media: Literal["screen", "print"] = "screen",
    ) -> None:
        """Show the page in a window of this size, in this theme, on screen or as if printed."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        await self.call(
            "Emulation.setEmulatedMedia",
            # "screen" would hold for printing too; nothing emulated leaves printing to itself.
            media="" if media == "screen" else media,
            features=[{"name": "prefers-color-scheme", "value": theme}],
        )

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"The page threw at {expression!r}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def wait_until(self, condition: str) -> None:
        """Wait until a JavaScript expression is true in the page."""
        await self.resolve(
            "new Promise((done) => { const look = () => "
            f"({condition}) ? done(true) : setTimeout(look, 20); look(); }})"
        )

    async def resolve(self, promise: str) -> Any:
        """Return what a JavaScript promise in the page comes to."""
        answer = await self.call(
            "Runtime.evaluate", expression=promise, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(f"The page threw at {promise!r}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def move_pointer(self, x: float, y: float) -> None:
        """Move the mouse to this place of the window."""
        await self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    async def screenshot(self) -> bytes:
        """Return a picture of the whole page, however long, as PNG."""
        picture = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(picture["data"])

    async def pdf(self) -> bytes:
        """Return the page as it prints on A4."""
        printed = await self.call(
            "Page.printToPDF",
            paperWidth=8.27,
            paperHeight=11.69,
            preferCSSPageSize=True,
        )
        return base64.b64decode(printed["data"])

    async def call(self, method: str, **parameters: Any) -> Any:
        """Return the answer to a DevTools command, noting what happens meanwhile."""
        self._last_id += 1
        wanted = self._last_id
        command = {"id": wanted, "method": method, "params": parameters}
        if self._session_id:
            command["sessionId"] = self._session_id
        await self._socket.send_json(command)
        async with asyncio.timeout(_DEADLINE_SECONDS):
            while True:
                message = await self._socket.receive_json()
                if message.get("id") == wanted:
                    break
                self._note(message)
        if "error" in message:
            raise AssertionError(f"Chromium refused {method}: {message['error']}")
        return message["result"]

    async def attach(self) -> None:
        """Open a tab of its own and begin to listen to it."""
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        self._session_id = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.call(f"{domain}.enable")

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(parameters["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in {"error", "warning"}:
                self.complaints.append(str(parameters["args"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in {"error", "warning"}:
                self.complaints.append(parameters["entry"]["text"])
            case _:
                pass


@contextlib.asynccontextmanager
async def browsing(chromium: str) -> AsyncIterator[Page]:
    """Yield a tab of a browser of its own, which ends with the block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = await asyncio.create_subprocess_exec(
            chromium,
            *_FLAGS,
            f"--user-data-dir={profile}",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | {"HOME": profile},
        )
        try:
            async with aiohttp.ClientSession() as client:
                address = await _address(browser)
                async with client.ws_connect(address, max_msg_size=0) as socket:
                    page = Page(socket)
                    await page.attach()
                    yield page
        finally:
            with contextlib.suppress(ProcessLookupError):
                browser.terminate()
            await browser.communicate()


async def _address(browser: asyncio.subprocess.Process) -> str:
    """Return the websocket address that Chromium prints once it listens."""
    stderr = browser.stderr
    if stderr is None:
        raise AssertionError("Chromium was started without a pipe for its messages.")
    stderr_lines = []
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while line := (await stderr.readline()).decode(errors="replace"):
            stderr_lines.append(line)
            if "DevTools listening on " in line:
                return line.split("DevTools listening on ")[1].strip()
    raise AssertionError(f"Chromium ended before it listened; it said: {''.join(stderr_lines)}")
