"""What a compilation has with it from stage to stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from weft.compiler.driver.options import Options
from weft.compiler.driver.report import Report
from weft.dialects.budget import Budget

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from weft.compiler.driver.compile_kernels import KernelStore
    from weft.compiler.driver.extension import Extension
    from weft.compiler.driver.golden import GoldenRun
    from weft.compiler.driver.observing.kernel_texts import KernelTexts
    from weft.compiler.driver.verify_changes import ChangeVerifier
    from weft.dialects.context import Refusals

OnStage = Callable[[str, int, int], None]
"""Is told a stage's name, how many of its steps are done, and how many there are."""


class Observer(Protocol):
    """Looks at a compilation on its way: at a module behind each pass, at why operators stayed
    apart, at the texts of kernels.
    """

    refusals: Refusals

    def look_at_module(self, stage: str, module: ModuleOp) -> None:
        """Is shown the module behind a pass."""
        ...

    def look_at_kernel(self, name: str, texts: KernelTexts) -> None:
        """Is shown how a kernel was made."""
        ...


@dataclass
class Session:
    """One compilation: its options, whom to tell, where to write what each stage gives,
    kernels that were compiled before, what the caller adds to the compiler, the self-test, a worker
    that was started ahead, what it may use, how many processes compile its kernels (one for each
    core that this one may use by default), whether the module is verified behind each pass, how
    many passes it went through, what verified the module last, and who looks at all of it.
    """

    options: Options
    on_stage: OnStage = lambda name, done, total: None
    dump_dir: Path | None = None
    store: KernelStore | None = None
    extensions: tuple[Extension, ...] = ()
    report: Report = field(default_factory=Report)
    golden: GoldenRun | None = None
    budget: Budget = field(default_factory=Budget)
    cores: int | None = None
    verify_each: bool = False
    passes: int = 0
    verifier: ChangeVerifier | None = None
    observer: Observer | None = None

    @property
    def is_watched(self) -> bool:
        """Whether anybody looks at what single passes do."""
        observed = self.observer is not None or self.dump_dir is not None
        return self.report.reads_passes or self.verify_each or observed

    def level(self, options: Options) -> Session:
        """The session for one CPU level, from the optimised graph on, with a report of its own but
        for the times.
        """
        if options == self.options:
            return self
        folder = None if self.dump_dir is None else self.dump_dir / options.target.name
        return replace(self, options=options, dump_dir=folder, report=self.report.level())

    def show(self, stage: str, module: ModuleOp) -> None:
        """Shows the module to who looks at it, if anybody does."""
        if self.observer is not None:
            self.observer.look_at_module(stage, module)

    def dump(self, name: str, text: object) -> None:
        """Writes the IR after a stage, where that was asked for."""
        if self.dump_dir is not None:
            self.dump_dir.mkdir(parents=True, exist_ok=True)
            (self.dump_dir / name).write_text(f"{text!s}\n")


def unwatched(options: Options) -> Session:
    """A compilation whose report nobody reads."""
    return Session(options, report=Report(reads_passes=False))
