import pytest
import torch
from tiny_export import make_exportable

from seq2seq.checkpoints.checkpoint import load_checkpoint
from seq2seq.checkpoints.exported import read_model, write_model
from seq2seq.data import tokenizers_state
from seq2seq.files.exported import FORMAT, Runtime, write_runtime
from seq2seq.files.paths import file_sha256


@pytest.mark.parametrize("tied", ["none", "decoder"])
def test_model_is_read_as_it_was_written(tmp_path, tied):
    checkpoint = make_exportable(f"model.tied_embeddings={tied}")
    model_state = checkpoint.build_model().state_dict()

    entries = write_model(
        tmp_path,
        config=checkpoint.config,
        tokenizers=tokenizers_state(checkpoint.tokenizers),
        model_state=model_state,
    )
    files = {path.name: file_sha256(path) for path in tmp_path.iterdir()}
    runtime = dict.fromkeys(Runtime.__annotations__) | {"format": FORMAT, "version": "1"}
    write_runtime(tmp_path, runtime | {"tokenizers": entries, "files": files})
    found = read_model(tmp_path)

    assert found.version == "1"
    assert found.config["model"]["tied_embeddings"] == tied
    assert found.model_state.keys() == model_state.keys()
    for name, value in model_state.items():
        assert torch.equal(found.model_state[name], value)
    for side, state in tokenizers_state(checkpoint.tokenizers).items():
        assert found.tokenizers[side]["kind"] == state["kind"]
        assert torch.equal(found.tokenizers[side]["model"], state["model"])


def test_folder_without_its_weights_is_one_line(tmp_path):
    runtime = dict.fromkeys(Runtime.__annotations__) | {"format": FORMAT}
    write_runtime(tmp_path, runtime | {"files": {"model.safetensors": "0"}})

    with pytest.raises(ValueError, match=r"lacks model.safetensors; export the model again"):
        load_checkpoint(tmp_path)
