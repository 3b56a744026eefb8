"""Build the optimizer that a configuration names."""

import torch

from seq2seq.config.training import OptimizerConfig, OptimizerName
from seq2seq.model.seq2seq import Seq2Seq


def build_optimizer(config: OptimizerConfig, model: Seq2Seq) -> torch.optim.Optimizer:
    """Build the optimizer of the parameters that are trained.

    The model is on its device already. Biases and the scales of layer norms get no weight decay.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in trained if parameter.dim() > 1]
    vectors = [parameter for parameter in trained if parameter.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    if config.name is OptimizerName.sgd:
        # On a GPU the fused form skips an fp16 overflow by itself; the host need not ask for it.
        is_fused = any(parameter.is_cuda for parameter in trained) or None
        return torch.optim.SGD(groups, lr=config.learning_rate, fused=is_fused)
    if config.name is OptimizerName.adamw:
        return torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)
    return torch.optim.Adam(groups, lr=config.learning_rate, fused=True)
