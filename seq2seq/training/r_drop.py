"""R-Drop: two passes with different dropout are to predict the same distributions.

Wu et al. 2021, "R-Drop: Regularized Dropout for Neural Networks". The divergence itself is in
`seq2seq.kernels.divergence`.
"""

import torch

from seq2seq.data import Batch


def repeat_rows(batch: Batch) -> Batch:
    """Return a batch with all rows twice, the copies after the originals.

    Dropout is drawn for each row, so one pass over both is two passes with different dropout.
    """
    tensors = {name: each for name, each in batch._asdict().items() if each is not None}
    doubled = batch._replace(**{name: torch.cat((each, each)) for name, each in tensors.items()})
    places = batch.target_places
    return doubled._replace(target_places=torch.cat((places, places + batch.target_ids.numel())))
