"""Chromium without a window, driven by its DevTools protocol through a pipe: no driver, no port."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Final

CHROMIUM: Final = shutil.which("chromium")

_FLAGS: Final = (
    "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-extensions", "--disable-background-networking", "--hide-scrollbars",
)  # fmt: skip


class Browser:
    """One page of one browser. `requests` are the addresses that the page asked for, `errors` what
    its scripts raised.
    """

    def __init__(self) -> None:
        assert CHROMIUM is not None, "who asks for a browser looks whether there is one"
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        command, own = os.pipe(), os.pipe()
        # The protocol's files have the numbers 3 and 4.
        script = f'exec "$@" 3<&{command[0]} 4>&{own[1]}'
        flags = [*_FLAGS, f"--user-data-dir={self._profile.name}"]
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", CHROMIUM, *flags],
            pass_fds=(command[0], own[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command[0])
        os.close(own[1])
        self._out, self._in = os.fdopen(command[1], "wb"), os.fdopen(own[0], "rb")
        self._number = 0
        self._session = ""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network"):
            self._ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        self._out.close()
        self._in.close()
        self._profile.cleanup()

    def open(self, page: Path, *, fragment: str = "", dark: bool = False) -> None:
        """Opens a file anew and waits until it is loaded."""
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[theme])
        self._ask("Page.navigate", url="about:blank")
        self.requests.clear()
        self.errors.clear()
        self._ask("Page.navigate", url=f"{page.as_uri()}{fragment}")
        while self._event()["method"] != "Page.loadEventFired":
            pass
        self.frame()

    def frame(self) -> None:
        """Waits until what has changed is drawn."""
        wait = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.run(wait)

    def resize(self, width: int, height: int) -> None:
        """Gives the page another size, in pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._ask("Emulation.setDeviceMetricsOverride", **size)

    def run(self, script: str) -> Any:
        """The value of an expression of JavaScript. Raises AssertionError for what it raises."""
        answer = self._ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self, selector: str, text: str = "") -> None:
        """Clicks the first element of a selector whose text starts so."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})]"
        wanted = f"(each) => each.textContent.trim().startsWith({json.dumps(text)})"
        event = "new MouseEvent('click', {bubbles: true})"
        self.run(f"{found}.find({wanted}).dispatchEvent({event})")
        self.frame()

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements of a selector that are visible."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})]"
        shown = "(each) => each.getClientRects().length"
        return self.run(f"{found}.filter({shown}).map((each) => each.textContent)")

    def key(self, key: str) -> None:
        """Presses a key where the focus is."""
        event = f"new KeyboardEvent('keydown', {{key: {json.dumps(key)}, bubbles: true}})"
        self.run(f"document.activeElement.dispatchEvent({event})")
        self.frame()

    def screenshot(self, path: Path) -> None:
        """Writes what is seen as a PNG."""
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot")["data"]))

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._note(answer)

    def _event(self) -> dict[str, Any]:
        message = self._message()
        self._note(message)
        return message if "method" in message else {"method": ""}

    def _note(self, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(message["params"]["exceptionDetails"]))
            case _:
                pass

    def _message(self) -> dict[str, Any]:
        parts: list[bytes] = []
        while (byte := self._in.read(1)) != b"\0":
            assert byte, "the browser ended"
            parts.append(byte)
        return json.loads(b"".join(parts))
