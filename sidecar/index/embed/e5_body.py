"""The body of multilingual-e5-small as an ONNX graph: embeddings of tokens in, their mean after twelve layers out.

Input `tokens` is float32[count, WIDTH], the sums of word, position and type
embeddings; output `mean` is float32[WIDTH], not of length 1. One text a run:
there is no batch, no padding and no mask, which is faster on a CPU than batches
and makes a vector independent of what is embedded beside it.

Matrices are int8 with a scale for each output; their inputs are quantized as
they come, with one scale for all. Two things keep that close to float32:

* Weights use 7 of the 8 bits. On CPUs without VNNI the product of uint8 and
  int8 is summed in 16 bits, and two full products don't fit there.
* A few channels inside each feed-forward block are far larger than all others
  and would take the resolution from them. These have always the same places
  (`e5_outliers`); they go a way of their own in float32.

Cosine to float32: .9990 in the mean, .998 at least; without the second .996 and .991.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sidecar.index.embed.e5_file import HEADS, INNER, LAYERS, NORM_EPSILON, WIDTH, Floats, WeightFile
from sidecar.index.embed.onnx_file import MICROSOFT, Graph

INPUT, OUTPUT = "tokens", "mean"
PEAKS = "peaks"

_HEAD_WIDTH = WIDTH // HEADS
_LARGEST_WEIGHT = 63  # of 7 bits, the same on both sides of 0


def quantized_body(weights: WeightFile, outliers: Sequence[Sequence[int]]) -> bytes:
    """The graph that is used. `outliers` are the channels of each layer that stay float32."""
    body = _Body(weights, outliers)
    return body.graph.model({INPUT: ("count", WIDTH)}, {OUTPUT: (WIDTH,)})


def exact_body(weights: WeightFile) -> bytes:
    """The same in float32 throughout: what the other is measured by.

    A second output `peaks`, float32[LAYERS, INNER], is the largest magnitude in each channel inside a feed-forward
    block.
    """
    body = _Body(weights, None)
    zero = body.graph.constant(np.array([0], np.int64))
    rows = [body.graph.node("Unsqueeze", peak, zero) for peak in body.peaks]
    body.graph.add("Concat", rows, [PEAKS], attributes={"axis": 0})
    return body.graph.model({INPUT: ("count", WIDTH)}, {OUTPUT: (WIDTH,), PEAKS: (LAYERS, INNER)})


class _Body:
    """Puts the nodes together. `outliers` None: everything in float32."""

    def __init__(self, weights: WeightFile, outliers: Sequence[Sequence[int]] | None) -> None:
        self.graph = Graph()
        self.peaks: list[str] = []
        self._weights = weights
        self._is_exact = outliers is None
        self._by_head = self.graph.constant(np.array([-1, 3 * HEADS, _HEAD_WIDTH], np.int64))
        self._by_token = self.graph.constant(np.array([-1, WIDTH], np.int64))
        add = self.graph.node
        x = self._norm(INPUT, "emb.ln")
        for at in range(LAYERS):
            x = self._norm(add("Add", x, self._attention(x, f"l{at}")), f"l{at}.aln")
            x = self._norm(add("Add", x, self._inner(x, f"l{at}", outliers[at] if outliers else ())), f"l{at}.oln")
        self.graph.add("ReduceMean", [x], [OUTPUT], attributes={"axes": [0], "keepdims": 0})

    def _attention(self, x: str, layer: str) -> str:
        """Every token looks at every token, in each of the heads."""
        add, vector = self.graph.node, self._weights.tensor
        matrices = [self._matrix(f"{layer}.{part}.w") for part in "qkv"]
        biases = [vector(f"{layer}.{part}.b") for part in "qkv"]
        # The scale of the products is put into the weights of the queries.
        scale = np.float32(1 / math.sqrt(_HEAD_WIDTH))
        matrices[0], biases[0] = matrices[0] * scale, biases[0] * scale
        # One matrix for queries, keys and values: x is quantized once for all three.
        joined = self._linear(x, np.concatenate(matrices, axis=1), np.concatenate(biases))
        heads = add("Transpose", add("Reshape", joined, self._by_head), perm=[1, 0, 2])
        queries = add("Split", heads, outputs=3, axis=0)
        keys, values = f"{queries}.1", f"{queries}.2"
        shares = add("Softmax", add("FusedMatMul", queries, keys, domain=MICROSOFT, transB=1), axis=-1)
        seen = add("Transpose", add("MatMul", shares, values), perm=[1, 0, 2])
        by_token = add("Reshape", seen, self._by_token)
        return self._linear(by_token, self._matrix(f"{layer}.ao.w"), vector(f"{layer}.ao.b"))

    def _inner(self, x: str, layer: str, outliers: Sequence[int]) -> str:
        """The feed-forward block. Its channels have no order, so the outliers are put last."""
        add, vector = self.graph.node, self._weights.tensor
        last = np.array(outliers, np.int64)
        first = np.setdiff1d(np.arange(INNER), last)
        order = np.concatenate([first, last])
        into, out_of = self._matrix(f"{layer}.fi.w")[:, order], self._matrix(f"{layer}.fo.w", INNER)
        channels = add("Gelu", self._linear(x, into, vector(f"{layer}.fi.b")[order]), domain=MICROSOFT)
        if self._is_exact:
            self.peaks.append(add("ReduceMax", add("Abs", channels), axes=[0], keepdims=0))
            return self._linear(channels, out_of, vector(f"{layer}.fo.b"))
        sizes = self.graph.constant(np.array([first.size, last.size], np.int64))
        usual = add("Split", channels, sizes, outputs=2, axis=1)
        large = add("MatMul", f"{usual}.1", self.graph.constant(out_of[last]))
        return add("Add", self._linear(usual, out_of[first], vector(f"{layer}.fo.b")), large)

    def _linear(self, x: str, matrix: Floats, bias: Floats) -> str:
        """x @ matrix + bias, by int8 unless everything is exact."""
        add, constant = self.graph.node, self.graph.constant
        if self._is_exact:
            return add("Add", add("MatMul", x, constant(matrix)), constant(bias))
        scales = np.abs(matrix).max(axis=0) / _LARGEST_WEIGHT
        scales[scales == 0] = 1
        whole = np.rint(matrix / scales).astype(np.int8)
        no_zero_points = ""
        inputs = (x, constant(whole), constant(scales), no_zero_points, constant(bias))
        return add("DynamicQuantizeMatMul", *inputs, domain=MICROSOFT)

    def _norm(self, x: str, name: str) -> str:
        scale, bias = (self.graph.constant(self._weights.tensor(f"{name}.{part}")) for part in "wb")
        return self.graph.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=NORM_EPSILON)

    def _matrix(self, name: str, inputs: int = WIDTH) -> Floats:
        """float32[inputs, outputs]; the file has rows of inputs."""
        return self._weights.tensor(name).reshape(-1, inputs).T
