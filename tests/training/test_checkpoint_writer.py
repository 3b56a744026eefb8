import pytest
import torch
from tiny_training import tiny_trainer

from seq2seq.checkpoints.checkpoint import load_checkpoint
from seq2seq.training.checkpoint_writer import CheckpointWriter
from seq2seq.training.progress import Progress


def names(writer_directory):
    return {path.name for path in writer_directory.path.glob("*.pt")}


@pytest.mark.parametrize(
    ("keep_best", "expected"),
    [(1, {"best.pt"}), (2, {"best.pt", "step-2.pt", "step-4.pt"})],
)
def test_the_best_are_written_and_the_others_deleted(tmp_path, keep_best, expected):
    trainer = tiny_trainer(tmp_path, f"training.validation.keep_best={keep_best}")
    config, directory = trainer.config, trainer.directory
    writer = CheckpointWriter(config, tokenizers=trainer.data.tokenizers, directory=directory)
    progress = Progress()

    for progress.update, value in ((1, 1.0), (2, 3.0), (3, 0.5), (4, 2.0)):
        state = trainer.model.state_dict()
        state["decoder.output.bias"] = torch.full_like(state["decoder.output.bias"], value)
        dropped = progress.count_validation(value, config.training)
        writer.keep_best(state, progress, dropped_updates=dropped)

    assert names(directory) == expected
    best = load_checkpoint(directory.best)
    assert best.model_state["decoder.output.bias"][0] == 3.0
    assert best.training_state is None
