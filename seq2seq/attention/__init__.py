"""Attention types with one interface and one registry, and attention between whole sequences.

`build_attention` builds the module of a config. `Attention.prepare` processes a batch of sources
once; a call with queries then returns contexts and weights. `Attention.start` and `Attention.step`
do the same step by step, also for types that read the weights of earlier steps.
"""

# Importing these modules registers their types.
from seq2seq.attention import additive, baselines, dot, gaussian, local, multihead  # noqa: F401
