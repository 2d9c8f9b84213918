"""Whether an artifact is what weft wrote, and whether it could run here; it is not loaded but for
its self-test.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from weft.compiler.machine.artifact.artifact import WASM, check_runs_on, load, read_metadata
from weft.compiler.machine.elf import records as elf
from weft.compiler.machine.elf.native_object import taken_from_libc
from weft.compiler.machine.elf.note import check_image, open_artifact
from weft.compiler.machine.elf.shared_object import SharedObject
from weft.compiler.machine.wasm.note import check_wasm
from weft.compiler.machine.weights.file import CALLER, EMBEDDED, FILE, SUFFIX, check_weights_file
from weft.compiler.machine.weights.verify_weights import check_weights
from weft.compiler.target.target import Target
from weft.dialects.errors import ArtifactError

_LIBRARIES: Final = ["libc.so.6"]
_FORBIDDEN: Final = {
    elf.DT_INIT: "an initialiser",
    elf.DT_FINI: "a finaliser",
    elf.DT_TEXTREL: "relocations of its code",
    elf.DT_INIT_ARRAY: "initialisers",
    elf.DT_FINI_ARRAY: "finalisers",
}


class Finding(Struct, frozen=True):
    """What one check found: `text` says what, or what is wrong with it."""

    check: str
    ok: bool
    text: str


def verify(
    path: str | Path,
    host: Target,
    *,
    exports: Collection[str],
    libc: Collection[str],
    run: bool = False,
) -> list[Finding]:
    """The findings of all checks in their order, up to the first that fails. With `run`, the last
    is the self-test, of an artifact that has one: then, and only then, it is loaded.

    `exports` are the functions that an artifact has to have, without its prefix, `libc` the names
    that it may take from elsewhere. That it was made for another machine than `host` is no failure.
    """
    checks = _Checks(Path(path), host, exports, libc, run)
    findings: list[Finding] = []
    try:
        findings.append(Finding("metadata", True, checks.metadata()))
        for name, check in checks.others():
            findings.append(Finding(name, True, check()))
    except ArtifactError as error:
        names = ["metadata", *(name for name, _ in checks.others())]
        findings.append(Finding(names[len(findings)], False, str(error)))
    return findings


class _Checks(Struct):
    """The checks of one file, each of which gives a text or raises ArtifactError."""

    path: Path
    host: Target
    needed_exports: Collection[str]
    libc: Collection[str]
    run: bool
    described: dict[str, Any] = field(default_factory=dict[str, Any])

    def others(self) -> Sequence[tuple[str, Callable[[], str]]]:
        """What follows the metadata."""
        if str(self.described.get("triple", "")).startswith(WASM):
            outside = self.described["weights_in"] != EMBEDDED
            return [("module", self._module), *([("weights", self._outside)] if outside else [])]
        tests = self.run and "self_test" in self.described
        return [
            ("machine", self._machine),
            ("image", self._image),
            ("file", self._file),
            ("segments", self._segments),
            ("imports", self._imports),
            ("exports", self._exports),
            ("weights", self._weights),
            *([("self-test", self._self_test)] if tests else []),
        ]

    def metadata(self) -> str:
        self.described = read_metadata(self.path)
        return f"intact, of weft {self.described['weft']}, ABI {self.described['abi']}"

    def _module(self) -> str:
        self._require_exports(check_wasm(self.path))
        return "whole, imports nothing, exports what the ABI asks for"

    def _machine(self) -> str:
        with open_artifact(self.path) as file:
            name = elf.machine_name(SharedObject(file, str(self.path)).header.machine)
        if name != str(self.described["triple"]).split("-", 1)[0]:
            raise self._refuse(f"code for {self.described['triple']}", f"code for {name}")
        try:
            check_runs_on(self.host, self.described, self.path.name)
        except ArtifactError as foreign:
            return f"{name}; not for this machine: {foreign}"
        return f"{name}, {self.described['cpu']}; runs here"

    def _image(self) -> str:
        check_image(self.path)
        with open_artifact(self.path) as file:
            build_id = SharedObject(file, str(self.path)).build_id().content.hex()
        return f"headers, code and data as linked, build id {build_id}"

    def _file(self) -> str:
        with open_artifact(self.path) as file:
            shared = SharedObject(file, str(self.path))
            shared.check_trailer()
            return "as written" if shared.has_trailer() else "whole; was stripped"

    def _segments(self) -> str:
        with open_artifact(self.path) as file:
            shared = SharedObject(file, str(self.path))
            by_type = {each.type: each for each in shared.programs}
            both = elf.PF_W | elf.PF_X
            if any(
                each.flags & both == both for each in shared.programs if each.type == elf.PT_LOAD
            ):
                raise self._refuse("memory that is written or run", "a segment for both")
            stack = by_type.get(elf.PT_GNU_STACK)
            if stack is None or stack.flags & elf.PF_X:
                raise self._refuse("a stack that is not run", "an executable one")
            if elf.PT_GNU_RELRO not in by_type:
                raise self._refuse("relocated data sealed (RELRO)", "none")
            self._check_dynamic(dict(shared.dynamic()))
        return "none both written and run, no executable stack, RELRO, bound at once"

    def _check_dynamic(self, entries: dict[int, int]) -> None:
        for tag, name in _FORBIDDEN.items():
            if tag in entries:
                raise self._refuse("nothing that runs or changes code when loaded", name)
        if not entries.get(elf.DT_FLAGS, 0) & elf.DF_BIND_NOW:
            raise self._refuse("symbols bound when loaded", "lazy ones")

    def _imports(self) -> str:
        with open_artifact(self.path) as file:
            shared = SharedObject(file, str(self.path))
            needed, imports = shared.needed(), shared.imports()
        unknown = sorted({*imports} - {*self.libc} - taken_from_libc(self.described))
        if unknown or any(each not in _LIBRARIES for each in needed):
            got = ", ".join([*needed, *unknown])
            raise self._refuse(f"nothing but {len(self.libc)} functions of libc", got)
        return f"{len(imports)} functions of {', '.join(needed)}"

    def _exports(self) -> str:
        with open_artifact(self.path) as file:
            names = SharedObject(file, str(self.path)).exports()
        self._require_exports(names)
        return f"{len(names)} functions"

    def _require_exports(self, names: Collection[str]) -> None:
        wanted = [f"{self.described['prefix']}_{name}" for name in self.needed_exports]
        missing = [name for name in wanted if name not in names]
        if missing:
            raise self._refuse(f"the functions {', '.join(missing)}", "none of that name")

    def _weights(self) -> str:
        if self.described["weights_in"] == FILE:
            return self._outside()
        digest = check_weights(self.path, self.described)
        return self._outside() if digest is None else f"intact, SHA-256 {digest}"

    def _self_test(self) -> str:
        """Loads the artifact, all of whose bytes are known by now to be weft's, and runs it."""
        if self.described["weights_in"] == CALLER:
            return "not run: its weights are with the caller"
        try:
            check_runs_on(self.host, self.described, self.path.name)
        except ArtifactError as foreign:
            return f"not run: {foreign}"
        load(self.path, self.host, threads=1).self_test()
        return f"passed, within {self.described['self_test']['tolerance']:g} of each output's scale"

    def _outside(self) -> str:
        """Of weights that are not in the artifact."""
        home = self.described.get("weights_in")
        if home != FILE:
            return "none inside" if home == EMBEDDED else "of the caller"
        path = self.path.with_suffix(SUFFIX)
        check_weights_file(path, self.described)
        return f"intact in {path.name}, SHA-256 {self.described['weights_sha256']}"

    def _refuse(self, rule: str, got: str) -> ArtifactError:
        return ArtifactError(f"{self.path} requires {rule}, got {got}")
