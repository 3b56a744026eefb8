import onnx
import pytest


@pytest.mark.parametrize("name", ["encoder.onnx", "step.onnx"])
def test_axes_are_named(exported, name):
    graph = onnx.load(exported / name).graph

    axes = {
        size.dim_param or size.dim_value
        for value in (*graph.input, *graph.output)
        for size in value.type.tensor_type.shape.dim
    }
    assert {axis for axis in axes if isinstance(axis, str)} <= set("BKRSW")


@pytest.mark.parametrize("name", ["encoder.onnx", "step.onnx"])
def test_graph_does_not_name_paths_of_this_machine(exported, name):
    assert b".py" not in (exported / name).read_bytes()
