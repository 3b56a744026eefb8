"""Fast formulations of single operations on a CPU, and the switch to torch's own."""

import contextlib
import logging
from collections.abc import Iterator
from enum import Enum

import torch

logger = logging.getLogger(__name__)


class Kernels(Enum):
    """The implementation of GRU sequences, dropout, products in loops and the vocabulary loss."""

    fast = "fast"
    """This package's kernels."""
    plain = "plain"
    """torch's own operations: slower, and the reference that the kernels are tested against."""


_chosen: Kernels | None = None
"""None until the first use."""


def use_kernels(kernels: Kernels) -> None:
    """Choose the kernels of this process, as `torch.backends` flags do.

    The fast kernels call private functions of torch. If this torch lacks one, a warning names it
    and the plain operations are used.
    """
    global _chosen
    if kernels is Kernels.fast and (missing := _missing_functions()):
        logger.warning(
            "torch %s lacks %s; this run uses kernels=plain, which is slower",
            torch.__version__,
            ", ".join(missing),
        )
        kernels = Kernels.plain
    _chosen = kernels


@contextlib.contextmanager
def kernels_in_use(kernels: Kernels) -> Iterator[None]:
    """Use kernels in a context, and the previous ones after it."""
    global _chosen
    previous = _chosen
    use_kernels(kernels)
    try:
        yield
    finally:
        _chosen = previous


def kernels_are_fast() -> bool:
    """Return whether the fast kernels are in use; they are unless `use_kernels` was called."""
    if _chosen is None:
        use_kernels(Kernels.fast)
    return _chosen is Kernels.fast


def _missing_functions() -> list[str]:
    """Name the private functions of torch that the kernels call and this torch lacks."""
    required: list[tuple[object, str]] = [(torch._C, "_current_graph_task_id")]
    if torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        required += [(torch.ops.mkl, "_mkl_linear"), (torch.ops.mkl, "_mkl_reorder_linear_weight")]
    if torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        required += [
            (torch.ops.mkldnn, name)
            for name in ("_is_mkldnn_bf16_supported", "_linear_pointwise", "_reorder_linear_weight")
        ]
    return [name for owner, name in required if not hasattr(owner, name)]
