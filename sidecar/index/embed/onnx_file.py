"""Builds an ONNX model node by node and writes it as a file's bytes.

Only what a feed-forward graph needs: constants, nodes, named inputs and
outputs. Values are known by their names, which `node` and `constant` make up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sidecar.index.embed.protobuf import blob, integer, integers, real, text

MICROSOFT = "com.microsoft"  # the operators of onnxruntime itself

# AttributeProto.AttributeType and TensorProto.DataType of onnx.proto
_FLOAT, _INT, _INTS = 1, 2, 7
_DATA_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int64": 7}

_IR_VERSION = 9
_OPERATOR_SETS = {"": 17, MICROSOFT: 1}

Attribute = float | int | Sequence[int]
Shape = Sequence[int | str]
"""A `str` is the name of a size that is known at run time only."""


class Graph:
    """A graph under construction."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def constant(self, values: NDArray[np.generic]) -> str:
        """A tensor that is part of the file. Returns its name."""
        name = f"c{len(self._constants)}"
        tensor = (
            integers(1, values.shape),
            integer(2, _DATA_TYPES[values.dtype.name]),
            text(8, name),
            blob(9, np.ascontiguousarray(values).tobytes()),
        )
        self._constants.append(blob(5, b"".join(tensor)))
        return name

    def node(self, operator: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes: Attribute) -> str:
        """An operator at work. Returns the name of its output; of several, the first: `name`, `name.1`, `name.2` …

        An input that is left out is "".
        """
        name = f"n{len(self._nodes)}"
        self.add(operator, inputs, [name, *(f"{name}.{at}" for at in range(1, outputs))], domain, attributes)
        return name

    def add(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        domain: str = "",
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        """An operator at work whose outputs have given names."""
        parts = [text(1, name) for name in inputs]
        parts += [text(2, name) for name in outputs]
        parts += [text(4, operator), text(7, domain)]
        parts += [blob(5, _attribute(name, value)) for name, value in (attributes or {}).items()]
        self._nodes.append(blob(1, b"".join(parts)))

    def model(self, inputs: Mapping[str, Shape], outputs: Mapping[str, Shape]) -> bytes:
        """The finished file. All inputs and outputs are float32."""
        graph = [
            *self._nodes,
            text(2, "graph"),
            *self._constants,
            *(blob(11, _value(name, shape)) for name, shape in inputs.items()),
            *(blob(12, _value(name, shape)) for name, shape in outputs.items()),
        ]
        sets = [blob(8, text(1, domain) + integer(2, version)) for domain, version in _OPERATOR_SETS.items()]
        return b"".join([integer(1, _IR_VERSION), text(2, "vault-sidecar"), blob(7, b"".join(graph)), *sets])


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return text(1, name) + real(2, value) + integer(20, _FLOAT)
    if isinstance(value, int):
        return text(1, name) + integer(3, value) + integer(20, _INT)
    return text(1, name) + integers(8, value) + integer(20, _INTS)


def _value(name: str, shape: Shape) -> bytes:
    sizes = [blob(1, text(2, size) if isinstance(size, str) else integer(1, size)) for size in shape]
    tensor = integer(1, _DATA_TYPES["float32"]) + blob(2, b"".join(sizes))
    return text(1, name) + blob(2, blob(1, tensor))
