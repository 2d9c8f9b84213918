"""The client that JAX talks to: one device, whose memory is the process's. What a call needs is
native code (`weft.compiler.machine.pjrt`); this module has the rest: compilation and errors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from weft.compiler.frontend.stablehlo.platform import PLATFORM
from weft.compiler.machine.codegen.host import host_target
from weft.compiler.machine.pjrt.declarations import (
    API,
    ARGUMENTS,
    ERROR,
    FUNCTIONS,
    OBJECTS,
    SET_COPY,
    TABLE_OFFSET,
)
from weft.compiler.machine.pjrt.plugin import plugin_code
from weft.compiler.version import VERSION
from weft.dialects.errors import InputError, UnsupportedError, WeftError
from weft.jax_plugin.program import Program, compile_program

INVALID_ARGUMENT, UNIMPLEMENTED, INTERNAL, CANCELLED = 3, 12, 13, 1
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_FAIL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)
_COPY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_INT64_LIST = 2


class Client:
    """The plugin's functions, its device, and the programs that it has compiled."""

    def __init__(self) -> None:
        self._code = plugin_code(host_target(calibrated=False)).load()
        get_api: Any = ctypes.CFUNCTYPE(ctypes.c_void_p)(self._code.address(API))
        self.api: int = get_api()
        self._new_error: Any = ctypes.CFUNCTYPE(
            ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p, ctypes.c_int64
        )(self._code.address(ERROR))
        self._held: list[Any] = []
        self._programs: dict[int, Program] = {}
        self._fail = self._hold(_FAIL(self._failed))
        self._device, self._client = self._objects()
        self._set_functions()

    @staticmethod
    @cache
    def of_process() -> Client:
        """The one client."""
        return Client()

    def _hold(self, value: Any) -> Any:
        """Keeps something as long as the process lives."""
        self._held.append(value)
        return value

    def _set_functions(self) -> None:
        """Puts Python's functions into the table."""
        functions: dict[str, Callable[[Any], None]] = {
            "Client_Create": self._create,
            "Client_Compile": self._compile,
            "Client_DefaultDeviceAssignment": self._assign,
            "Plugin_Attributes": self._attributes,
        }
        for name, function in functions.items():
            address = self.api + TABLE_OFFSET + 8 * FUNCTIONS.index(name)
            callback = self._hold(_CALLBACK(self._guarded(function, ARGUMENTS[name].structure)))
            ctypes.c_void_p.from_address(address).value = _address(callback)
        set_copy: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._code.address(SET_COPY))
        set_copy(_address(self._hold(_COPY(_copy_strided))))

    def _guarded(self, function: Callable[[Any], None], structure: Any) -> Any:
        def call(address: int) -> int | None:
            try:
                function(structure.from_address(address))
            except BaseException as error:  # nothing may be raised into native code
                return self._error(error)
            return None

        return call

    def _error(self, error: BaseException) -> int:
        """An error of the API."""
        codes = {UnsupportedError: UNIMPLEMENTED, WeftError: INVALID_ARGUMENT, Exception: INTERNAL}
        code = next((codes[kind] for kind in codes if isinstance(error, kind)), CANCELLED)
        text = str(error) if isinstance(error, WeftError) else f"{type(error).__name__}: {error}"
        data = text.encode()
        return self._new_error(code, data, len(data))

    def _objects(self) -> tuple[Any, Any]:
        """The structures of the device and of the client, which refer to each other."""
        device, memory, client = (
            self._hold(OBJECTS[name].structure()) for name in ("Device", "Memory", "Client")
        )
        devices, memories = (
            self._hold((ctypes.c_void_p * 1)(ctypes.addressof(each))) for each in (device, memory)
        )
        for each in (device, client):
            each.memories, each.num_memories = ctypes.addressof(memories), 1
        for each in (memory, client):
            each.devices, each.num_devices = ctypes.addressof(devices), 1
        device.is_addressable = 1
        device.memory = ctypes.addressof(memory)
        device.description = client.device = ctypes.addressof(device)
        client.topology = ctypes.addressof(client)
        self._set_text(client, "platform_name", PLATFORM)
        self._set_text(client, "platform_version", VERSION)
        self._set_text(device, "device_kind", "cpu")
        self._set_text(device, "debug_string", f"{PLATFORM}:0")
        self._set_text(memory, "memory_kind", "device")
        self._set_text(memory, "debug_string", f"{PLATFORM}:0 memory")
        return device, client

    def _set_text(self, owner: Any, member: str, text: str) -> None:
        data = self._hold(ctypes.create_string_buffer(text.encode()))
        setattr(owner, member, ctypes.addressof(data))
        setattr(owner, f"{member}_size", len(text))

    def _create(self, args: Any) -> None:
        args.client = ctypes.addressof(self._client)

    def _assign(self, args: Any) -> None:
        """One device computes everything."""
        _require_one(args.num_replicas, args.num_partitions)
        ctypes.memset(args.assignment, 0, 4 * args.size)

    def _attributes(self, args: Any) -> None:
        """The versions of StableHLO that programs may have: what jaxlib reads."""
        stablehlo: Any = import_module("jaxlib.mlir.dialects.stablehlo")
        versions = {
            "stablehlo_current_version": stablehlo.get_current_version(),
            "stablehlo_minimum_version": stablehlo.get_minimum_version(),
        }
        layout = OBJECTS["NamedValue"].structure
        values = self._hold((layout * len(versions))())
        for value, (name, version) in zip(values, versions.items(), strict=True):
            value.struct_size = ctypes.sizeof(layout)
            self._set_text(value, "name", name)
            numbers = self._hold((ctypes.c_int64 * 3)(*map(int, version.split("."))))
            value.type, value.value, value.value_size = _INT64_LIST, ctypes.addressof(numbers), 3
        args.attributes, args.num_attributes = ctypes.addressof(values), len(values)

    def _compile(self, args: Any) -> None:
        self._forget()
        given = OBJECTS["Program"].structure.from_address(args.program)
        form = ctypes.string_at(given.format, given.format_size).decode()
        if form != "mlir":
            raise UnsupportedError(f"a compilation requires a program of mlir, got {form}")
        options = ctypes.string_at(args.options, args.options_size)
        program = compile_program(ctypes.string_at(given.code, given.code_size), options)
        owner = program.structure
        owner.devices, owner.num_devices = self._client.devices, 1
        owner.device, owner.memory = ctypes.addressof(self._device), self._device.memory
        owner.fail = _address(self._fail)
        self._programs[program.address] = program
        args.executable = program.address

    def _forget(self) -> None:
        """Lets go of programs that JAX refers to no more."""
        for address, program in list(self._programs.items()):
            if program.structure.references == 0:
                del self._programs[address]
                program.close()

    def _failed(self, address: int, status: int) -> int:
        """The error of a call that ended with a status."""
        try:
            self._programs[address].fail(status)
        except BaseException as error:  # nothing may be raised into native code
            return self._error(error)
        return self._error(InputError(f"a call requires values that it can take, got {status}"))


def _require_one(replicas: int, partitions: int) -> None:
    if (replicas, partitions) != (1, 1):
        rule = "a program requires one device"
        raise UnsupportedError(f"{rule}, got {replicas} replicas of {partitions} partitions")


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _copy_strided(arguments: int, target: int, element: int) -> None:
    """Elements of the host with any strides become dense ones."""
    args = ARGUMENTS["Client_BufferFromHostBuffer"].structure.from_address(arguments)
    dims, strides = (
        list((ctypes.c_int64 * args.num_dims).from_address(each))
        for each in (args.dims, args.strides)
    )
    dense = np.empty(dims, f"V{element}")
    for index in np.ndindex(*dims[:-1]):
        row = args.data + sum(at * stride for at, stride in zip(index, strides, strict=False))
        start = min(0, strides[-1] * (dims[-1] - 1))
        span = abs(strides[-1]) * (dims[-1] - 1) + element
        raw = (ctypes.c_char * span).from_address(row + start)
        dense[index] = np.ndarray(dims[-1:], f"V{element}", raw, -start, strides[-1:])
    ctypes.memmove(target, dense.ctypes.data, dense.nbytes)
