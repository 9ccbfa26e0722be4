"""Small graphs are written here and run by onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from sidecar.index.embed.e5 import start
from sidecar.index.embed.onnx_file import MICROSOFT, Graph


def test_a_graph_computes_what_its_nodes_say() -> None:
    graph = Graph()
    matrix = graph.constant(np.array([[1, 2], [3, 4]], np.float32).T)  # not contiguous
    product = graph.node("MatMul", "x", matrix)
    halves = graph.node("Split", product, graph.constant(np.array([1, 1], np.int64)), outputs=2, axis=1)
    summed = graph.node("Add", halves, f"{halves}.1")
    graph.add("LeakyRelu", [summed], ["y"], attributes={"alpha": 0.5})
    body = start(graph.model({"x": ("count", 2)}, {"y": ("count", 1)}))
    (y,) = body.run(["y"], {"x": np.array([[1, 1], [-1, 0]], np.float32)})
    assert y.tolist() == [[10.0], [-2.0]]


def test_attributes_may_be_lists_and_inputs_may_be_left_out() -> None:
    graph = Graph()
    turned = graph.node("Transpose", "x", perm=[1, 0])
    scales = graph.constant(np.array([0.5, 0.25], np.float32))
    whole = graph.constant(np.array([[2, 4], [-2, 0]], np.int8))
    bias = graph.constant(np.array([10, 20], np.float32))
    graph.add("DynamicQuantizeMatMul", [turned, whole, scales, "", bias], ["y"], MICROSOFT)
    body = start(graph.model({"x": (2, "count")}, {"y": ("count", 2)}))
    (y,) = body.run(["y"], {"x": np.array([[1.0], [0.5]], np.float32)})
    assert y == pytest.approx(np.array([[10.5, 21.0]]), abs=0.01)
