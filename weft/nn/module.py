"""`Module`: parameters, modules inside, and how a result is computed with them."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, Self, cast

import numpy as np

from weft.array.operators import ArrayOperators, users_line
from weft.dialects.errors import WeftError
from weft.eager.tensor import Tensor, dims_and_dtype
from weft.nn.safetensors import read_tensors, write_tensors
from weft.state import CHANGES, note, put_back


class Module:
    """Tensors that are its attributes are its parameters; modules that are, alone or in lists and
    dicts, are its parts. Its result is what `construct`, or `forward`, gives.

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Dense(784, 512), nn.ReLU())

        def construct(self, x):
            return self.layers(x)
    """

    training: bool

    def __init__(self) -> None:
        self.training = True
        self._buffers: set[str] = set()

    def construct(self, *arguments: Any, **named: Any) -> Any:
        """The result; a module defines this method, or `forward`."""
        raise NotImplementedError(f"{type(self).__name__} requires a method construct or forward")

    def forward(self, *arguments: Any, **named: Any) -> Any:
        """The result, by another name."""
        return self.construct(*arguments, **named)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        log = outer = CHANGES.log
        if log is None:
            log = CHANGES.log = []
        start = len(log)
        try:
            return self.forward(*arguments, **named)
        except BaseException as error:
            put_back(log, start)
            if isinstance(error, WeftError):
                locate(error, self)
            raise
        finally:
            if outer is None:
                CHANGES.log = None

    def __setattr__(self, name: str, value: Any) -> None:
        note(self, name, value)
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        values = vars(self).items()
        sizes = [f"{k}={list(x.shape)}" for k, x in values if isinstance(x, ArrayOperators)]
        settings = [f"{name}={value!r}" for name, value in values if _is_shown(name, value)]
        parts = [
            f"\n({path}): {part!r}".replace("\n", "\n  ")
            for name, value in values
            for path, part in _parts(name, value)
            if isinstance(part, Module)
        ]
        inside = ", ".join([*sizes, *settings]) + "".join(parts)
        return f"{type(self).__name__}({inside}" + ("\n)" if parts else ")")

    def buffer(self, name: str, value: Tensor) -> None:
        """Adds a tensor that is part of the state and no parameter."""
        self._buffers.add(name)
        setattr(self, name, value)

    @property
    def buffer_names(self) -> Set[str]:
        """The attributes that are part of the state and no parameters."""
        return vars(self).get("_buffers", frozenset())  # none yet while it is made

    def modules(self) -> Iterator[tuple[str, Module]]:
        """This module and all inside it, each once, with their paths; its own is empty."""
        seen: set[int] = set()

        def walk(path: str, module: Module) -> Iterator[tuple[str, Module]]:
            if id(module) in seen:
                return
            seen.add(id(module))
            yield path, module
            for name, value in vars(module).items():
                for below, part in _parts(name, value):
                    if isinstance(part, Module):
                        yield from walk(f"{path}.{below}" if path else below, part)

        return walk("", self)

    def tensor_attributes(self) -> Iterator[tuple[str, Module, str]]:
        """The path, the module and the attribute of every tensor."""
        for path, module in self.modules():
            for name, value in vars(module).items():
                if isinstance(value, ArrayOperators):
                    yield f"{path}.{name}" if path else name, module, name

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """The parameters with their paths, such as `layers.0.weight`."""
        return iter(self.parameters().items())

    def parameters(self) -> dict[str, Tensor]:
        """The parameters by their paths: a tree, as derivatives and optimisers take it."""
        attributes = self.tensor_attributes()
        return {
            path: getattr(module, name)
            for path, module, name in attributes
            if name not in module._buffers
        }

    def buffers(self) -> dict[str, Tensor]:
        """What else belongs to the state, such as running means."""
        attributes = self.tensor_attributes()
        return {
            path: getattr(module, name)
            for path, module, name in attributes
            if name in module._buffers
        }

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers."""
        return self.parameters() | self.buffers()

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Self:
        """Takes tensors of these names; raises WeftError for shapes that differ, and, if strict,
        for names that are missing or unknown.
        """
        holders = {path: (module, name) for path, module, name in self.tensor_attributes()}
        if strict and set(holders) != set(state):
            missing, unknown = sorted(set(holders) - set(state)), sorted(set(state) - set(holders))
            got = f"{', '.join(missing) or 'none'} missing, {', '.join(unknown) or 'none'} unknown"
            raise WeftError(f"{users_line()}: a state requires the names of the module, got {got}")
        for path, value in state.items():
            if path not in holders:
                continue
            module, name = holders[path]
            dims, dtype = dims_and_dtype(getattr(module, name))
            if dims != tuple(value.shape):
                rule = f"{path} requires the shape {list(dims)}"
                raise WeftError(f"{users_line()}: {rule}, got {list(value.shape)}")
            kept = isinstance(value, ArrayOperators) and value.dtype == dtype
            setattr(module, name, value if kept else Tensor(np.asarray(value), dtype))
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes parameters and buffers as safetensors."""
        write_tensors(path, {name: np.asarray(each) for name, each in self.state_dict().items()})

    def load(self, path: str | os.PathLike[str], strict: bool = True) -> Self:
        """Takes parameters and buffers out of a file of safetensors."""
        return self.load_state_dict(read_tensors(path), strict)

    def train(self, mode: bool = True) -> Self:
        """Computes as in training from now on: normalisations by batches, dropout."""
        for _, module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Computes as after training from now on."""
        return self.train(False)

    @contextmanager
    def bound(self, state: Mapping[str, Any]) -> Generator[None]:
        """Inside, parameters and buffers of these names are others, which may be traced; what they
        and the other tensors were before is put back in the end.
        """
        holders = {path: (module, name) for path, module, name in self.tensor_attributes()}
        unknown = sorted(set(state) - set(holders))
        if unknown:
            rule = "a module requires names of its tensors"
            raise WeftError(f"{users_line()}: {rule}, got {', '.join(unknown)}")
        before = [(module, name, getattr(module, name)) for module, name in holders.values()]
        for path, value in state.items():
            setattr(*holders[path], value)
        try:
            yield
        finally:
            for module, name, value in before:
                setattr(module, name, value)

    def apply(self, state: Mapping[str, Any], *arguments: Any, **named: Any) -> Any:
        """The result with other parameters and buffers; the module stays as it is."""
        with self.bound(state):
            return self(*arguments, **named)

    def apply_updating(
        self, state: Mapping[str, Any], *arguments: Any, **named: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The result with other parameters and buffers, and the buffers after it."""
        with self.bound(state):
            result = self(*arguments, **named)
            return result, cast("dict[str, Any]", self.buffers())


Cell = Module


def locate(error: WeftError, module: Module) -> None:
    """Adds to an error the path, from a module, of the innermost one that it came from."""
    values = vars(error)
    inner = values.setdefault("module", module)
    text = values.setdefault("text", str(error))
    path = next((path for path, each in module.modules() if each is inner), "")
    error.args = (f"{text} (in {path + ', ' if path else ''}{type(inner).__name__})",)


def _is_shown(name: str, value: object) -> bool:
    """Whether an attribute says how a module was made."""
    if isinstance(value, list | tuple) and value:
        return all(isinstance(each, int | float | str) for each in cast("Sequence[object]", value))
    return isinstance(value, int | float | str) and name != "training"


def _parts(name: str, value: object) -> Iterator[tuple[str, object]]:
    """What an attribute holds: itself, or the elements of a list, tuple or dict, by path."""
    if isinstance(value, list | tuple):
        for position, each in enumerate(cast("Sequence[object]", value)):
            yield from _parts(f"{name}.{position}", each)
    elif isinstance(value, dict):
        for key, each in cast("dict[object, object]", value).items():
            yield from _parts(f"{name}.{key}", each)
    else:
        yield name, value
