"""The typed call of the C header: one evaluation as a function of the model's own tensors and
sizes, inline over `m_run`, which allocates nothing.
"""

from __future__ import annotations

import re
from typing import Final

from weft.compiler.machine.artifact.signature import Signature, TensorSpec
from weft.compiler.machine.bindings.example_c import C_TYPES

_INFER: Final = """\
/* One evaluation: m_run with a call made of these arguments{more}. */
static inline int32_t {prefix}_infer({parameters}) {{
  const void *inputs[{input_room}] = {{{inputs}}};
  void *outputs[{output_room}] = {{{outputs}}};
  int64_t dims[{dim_room}] = {{{dims}}};
  weft_call call;
  int32_t status;
  call.size = sizeof call;
  call.inputs = inputs;
  call.outputs = outputs;
  call.dims = dims;
  call.workspace = workspace;
  call.workspace_size = workspace_size;
  call.reserved[0] = call.reserved[1] = 0;
  status = {prefix}_run(context, &call);
{results}  return status;
}}
"""


def typed_call(prefix: str, signature: Signature) -> str:
    """The inline function, in C99 and C++. Sizes come first, then inputs, outputs, the places of
    sizes that the call finds, and the workspace.
    """
    taken: set[str] = set()
    dims = [_parameter("dim", name, taken) for name in signature.symbols]
    inputs = [_parameter("in", spec.name, taken) for spec in signature.inputs]
    outputs = [_parameter("out", spec.name, taken) for spec in signature.outputs]
    found = [_parameter("found", name, taken) for name in signature.found]
    made = signature.made
    parameters = [
        "weft_context *context",
        *(f"int64_t {name}" for name in dims),
        *(_pointer("const ", s, "*", n) for s, n in zip(signature.inputs, inputs, strict=True)),
        *(
            _pointer("", spec, "**" if position in made else "*", name)
            for position, (spec, name) in enumerate(zip(signature.outputs, outputs, strict=True))
        ),
        *(f"int64_t *{name}" for name in found),
        "void *workspace",
        "uint64_t workspace_size",
    ]
    results = [
        f"  *{name} = ({_c_type(signature.outputs[position])} *)outputs[{position}];\n"
        for position, name in enumerate(outputs)
        if position in made
    ]
    results += [f"  *{name} = dims[{n}];\n" for n, name in enumerate(found, len(dims))]
    given = ["0" if position in made else name for position, name in enumerate(outputs)]
    return _INFER.format(
        prefix=prefix,
        more="; outputs that it makes are given to m_release" if made else "",
        parameters=", ".join(parameters),
        inputs=", ".join(inputs) or "0",
        outputs=", ".join(given) or "0",
        dims=", ".join([*dims, *("0" for _ in found)]) or "0",
        input_room=max(1, len(inputs)),
        output_room=max(1, len(outputs)),
        dim_room=max(1, len(dims) + len(found)),
        results="".join(results),
    )


def _c_type(spec: TensorSpec) -> str:
    return C_TYPES.get(spec.dtype, "uint8_t")


def _pointer(qualifier: str, spec: TensorSpec, stars: str, name: str) -> str:
    return f"{qualifier}{_c_type(spec)} {stars}{name}"


def _parameter(c_type: str, name: str, taken: set[str]) -> str:
    """A name that no keyword and no macro has, and no other parameter."""
    stem = f"{c_type}_{re.sub(r'[^0-9a-zA-Z]+', '_', name).strip('_')}"
    chosen, attempt = stem, 1
    while chosen in taken:
        attempt += 1
        chosen = f"{stem}_{attempt}"
    taken.add(chosen)
    return chosen
