"""The structures of the run-time ABI (docs/abi.md), each declared once, in C: headers show the
declarations, and from them follow the offsets in generated code and the mirrors in Python.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

_TYPES: Final[dict[str, tuple[str, Any]]] = {
    "uint8_t": ("B", ctypes.c_uint8),
    "uint16_t": ("H", ctypes.c_uint16),
    "uint32_t": ("I", ctypes.c_uint32),
    "uint64_t": ("Q", ctypes.c_uint64),
    "int32_t": ("i", ctypes.c_int32),
    "int64_t": ("q", ctypes.c_int64),
    "void *": ("Q", ctypes.c_void_p),
}
"""How the modules struct and ctypes call a type of C; `void *` stands for all pointers."""

_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_FUNCTION_POINTER: Final = re.compile(r"\(\*(\w+)\)\(")
_DECLARATION: Final = re.compile(r"(.*?)(\w+)(?:\[(\d+)\])?", re.DOTALL)


class Member(Struct, frozen=True):
    """A member of type `kind`, or `count` of them in a row; `offset` is in bytes."""

    name: str
    c_type: str
    offset: int
    count: int

    @property
    def is_pointer(self) -> bool:
        """Whether it is an address, of data or of a function."""
        return self.c_type == "void *"

    @property
    def bytes(self) -> int:
        """The size of one."""
        return struct.calcsize(f"<{_TYPES[self.c_type][0]}")

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.offset + self.count * self.bytes


class CStruct:
    """A structure without padding, by the declarations of its members in C."""

    def __init__(self, name: str, declarations: str):
        self.name = name
        self.declaration = f"typedef struct {{\n{declarations}}} {name};\n"
        self.members = tuple(_members(declarations))

    @property
    def size(self) -> int:
        """Bytes of the whole."""
        return self.members[-1].end

    @property
    def packing(self) -> struct.Struct:
        """What packs values of all members into bytes; an array of bytes is one value."""
        codes = [
            f"{each.count}s" if each.c_type == "uint8_t" and each.count > 1
            else f"{each.count}{_TYPES[each.c_type][0]}"
            for each in self.members
        ]  # fmt: skip
        return struct.Struct("<" + "".join(codes))

    @property
    def ctypes_fields(self) -> list[tuple[str, Any]]:
        """The `_fields_` of a ctypes.Structure; pointers are c_void_p."""
        return [
            (each.name, _TYPES[each.c_type][1] * each.count)
            if each.count > 1
            else (each.name, _TYPES[each.c_type][1])
            for each in self.members
        ]


def _members(declarations: str) -> Iterator[Member]:
    offset = 0
    for text in _COMMENT.sub("", declarations).split(";")[:-1]:
        member = _member(text.strip(), offset)
        assert offset % member.bytes == 0, f"C would put padding before {member.name}"
        offset = member.end
        yield member


def _member(text: str, offset: int) -> Member:
    """`uint64_t reserved[2]`, `const void *const *inputs` or `void (*release)(...)`."""
    function = _FUNCTION_POINTER.search(text)
    if function is not None:
        return Member(function[1], "void *", offset, 1)
    declared = _DECLARATION.fullmatch(text)
    assert declared is not None, f"no declaration of a member: {text}"
    c_type, name, count = declared.groups()
    return Member(name, "void *" if "*" in c_type else c_type.strip(), offset, int(count or 1))


COLLECTIVE: Final = CStruct(
    "weft_collective",
    """\
  uint64_t size;      /* sizeof(weft_collective) */
  uint64_t tag;       /* the same on all ranks: of the program, and the collective in it */
  uint32_t operation; /* 0 all_reduce, 1 all_gather, 2 reduce_scatter, 3 send, 4 recv */
  uint32_t reduction; /* 0 sum, 1 max, 2 min */
  uint32_t dtype;     /* 0 f32, 1 f64, 2 i32, 3 i64, 4 bytes, which are only moved */
  uint32_t axes;      /* of the mesh, along which the group lies */
  int64_t count;      /* elements of all_reduce, else those of one rank's part */
  const int64_t *sizes;   /* ranks along each axis */
  const int64_t *strides; /* how far apart neighbours are */
  int64_t peer;           /* of send and recv: the index of the other rank in the group */
""",
)
"""What ranks of a group do together."""

COMMUNICATION: Final = CStruct(
    "weft_communication",
    """\
  uint64_t size; /* sizeof(weft_communication) */
  void *user;    /* first argument of all */
  uint32_t rank; /* of this context */
  uint32_t ranks;
  /* 0; or 1 + the rank that is lost; or the complement of a rank that runs another program */
  int32_t (*start)(void *user, const weft_collective *what, const void *source, void *target);
  int32_t (*wait)(void *user, const weft_collective *what, const void *source, void *target);
  void (*abort)(void *user); /* ends the calls of all ranks, and names this one */
""",
)
"""How a context reaches other ranks."""

OPTIONS: Final = CStruct(
    "weft_options",
    """\
  uint64_t size;    /* sizeof(weft_options) */
  uint32_t threads; /* that compute, the caller's among them; 0: as many as there are processors */
  uint32_t flags;   /* 0; or 1 + the number of the level to run, for tests */
  void (*parallel_for)(void *user, int64_t count,
                       void (*body)(void *argument, int64_t begin, int64_t end), void *argument);
  void *parallel_for_user;
  void *(*allocate)(void *user, uint64_t bytes, uint64_t alignment);
  void (*release)(void *user, void *memory);
  void *allocator_user;
  const void *const *weights; /* NULL: those inside the artifact */
  /* what the program prints, or NULL: text with places such as {float32,2,} for values */
  void (*print)(void *user, const char *text, const void *const *values, const int64_t *dims);
  void *print_user;
  const weft_communication *communication; /* of a model for a mesh of ranks, else NULL */
  /* runs a function of the host that the program names, or NULL; 0, or what ends the call */
  int32_t (*call_host)(void *user, const char *text, void *const *values, const int64_t *dims);
""",
)

CALL: Final = CStruct(
    "weft_call",
    """\
  uint64_t size; /* sizeof(weft_call) */
  const void *const *inputs;
  void **outputs; /* NULL, or where the model made them, for those of sizes that it finds */
  int64_t *dims;  /* the free sizes; behind them a run writes those that it finds */
  void *workspace; /* aligned to WEFT_WORKSPACE_ALIGNMENT */
  uint64_t workspace_size;
  uint64_t reserved[2]; /* 0 */
""",
)

SPAN: Final = CStruct(
    "weft_span",
    """\
  uint64_t size;    /* sizeof(weft_span); that of a later version may be longer */
  uint64_t begin;   /* nanoseconds of CLOCK_MONOTONIC */
  uint64_t end;
  uint64_t thread;  /* pthread_self() of the thread that it is of */
  const char *name; /* of the kernel, or of what else it is; lives as long as the artifact */
  int32_t number;   /* of the kernel's call in the metadata's list calls, or WEFT_SPAN_... */
  uint32_t reserved;
""",
)
"""What a thread did for a time; a host's `profile` is called with each."""

TABLE: Final = CStruct(
    "weft_table",
    """\
  uint64_t size;  /* sizeof(weft_table) */
  uint64_t bytes; /* with all that it has places of */
  uint32_t abi_version;
  uint32_t flags;
  uint32_t tensor_size; /* bytes from one entry to the next */
  uint32_t dim_size;
  uint32_t symbol_size;
  uint32_t level_size;
  uint32_t prefix; /* texts */
  uint32_t version;
  uint32_t triple;
  uint32_t cpu;
  uint32_t features; /* that the processor needs, with spaces between */
  uint32_t levels;   /* weft_level */
  uint32_t level_count;
  uint32_t symbols; /* weft_symbol: the free sizes, then those that a call finds */
  uint32_t symbol_count;
  uint32_t found_count;
  uint32_t inputs; /* weft_tensor */
  uint32_t input_count;
  uint32_t outputs;
  uint32_t output_count;
  uint32_t logical; /* weights that m_prepare_weights takes */
  uint32_t logical_count;
  uint32_t weights_in;
  uint32_t weight_count; /* pointers in weights of weft_options */
  uint64_t weight_bytes;
  uint64_t prepared_bytes;  /* that m_prepare_weights writes */
  uint64_t workspace_bytes; /* or WEFT_UNKNOWN: ask m_workspace_size */
  uint32_t workspace_alignment;
  uint32_t options_size; /* sizeof(weft_options) */
  uint32_t call_size;    /* sizeof(weft_call) */
  uint32_t stack_depth;  /* that the steps of a dim need at most */
  uint8_t metadata_sha256[32];
  uint8_t weights_sha256[32]; /* of the file of weights; 0 without one */
  uint64_t reserved[5];
""",
)
"""What `m_query` returns; places are offsets from its start."""

LEVEL: Final = CStruct(
    "weft_level",
    """\
  uint32_t name;
  uint32_t features;
""",
)

SYMBOL: Final = CStruct(
    "weft_symbol",
    """\
  uint32_t name;
  uint32_t is_found;
  uint32_t input; /* the first with a dim that is this size alone, or WEFT_NONE */
  uint32_t axis;
  int64_t least;
  int64_t most;
""",
)

TENSOR: Final = CStruct(
    "weft_tensor",
    """\
  uint32_t name;
  uint32_t dtype; /* NumPy's name */
  uint8_t code;   /* DLPack's type: code, bits, lanes */
  uint8_t bits;
  uint16_t lanes;
  uint32_t element_bytes;
  uint32_t rank;
  uint32_t dims;  /* weft_dim */
  uint32_t shape; /* text, as messages have it */
  uint32_t flags;
  uint64_t bytes; /* or WEFT_UNKNOWN */
  uint32_t alignment;
  uint32_t donor; /* the input whose place this output may take, or WEFT_NONE */
  uint32_t shown_name; /* text: as messages have it, without codes that terminals obey */
  uint32_t reserved_word;
  uint64_t reserved;
""",
)

DIM: Final = CStruct(
    "weft_dim",
    """\
  int64_t size;      /* or -1: what the steps give */
  uint32_t text;     /* the expression */
  uint32_t symbol;   /* where it is one alone, or WEFT_NONE */
  uint32_t steps;    /* weft_step */
  uint32_t step_count;
  uint64_t reserved;
""",
)

STEP: Final = CStruct(
    "weft_step",
    """\
  int64_t operation; /* WEFT_STEP_... */
  int64_t operand;   /* the number, or the place of the symbol */
""",
)
