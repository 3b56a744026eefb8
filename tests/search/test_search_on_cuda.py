"""Searches and forced scoring on a pretended GPU give the results of the CPU."""

import pytest
import torch
from pretend_cuda import CUDA, pretend_cuda
from tiny_attention import attention_config
from tiny_models import FORMS, tiny_batch, tiny_model

from seq2seq.attention.base import attention_config_types
from seq2seq.inference.scoring import score_targets
from seq2seq.search.config import BeamConfig, GreedyConfig, SamplingConfig
from seq2seq.search.searches import search

LIMITS = {"max_length_ratio": 0.0, "max_length_offset": 4}
SEARCHES = {
    "greedy": GreedyConfig(**LIMITS),
    "beam": BeamConfig(beam_size=2, **LIMITS),
    "coverage": BeamConfig(beam_size=2, coverage_penalty=0.3, **LIMITS),
    "sampling": SamplingConfig(num_samples=2, seed=5, **LIMITS),
}
SYMBOLS = {"symbols": [8, 9], "num_symbols": [2, 0, 1]}
TYPES = sorted(attention_config_types())
CASES = [("additive", "luong", name) for name in SEARCHES]
CASES += [(name, FORMS[i % len(FORMS)], "beam") for i, name in enumerate(TYPES)]


@pytest.mark.parametrize(("attention", "form", "name"), CASES)
def test_search_and_scoring_are_those_of_the_cpu_and_the_model_never_waits(attention, form, name):
    model = tiny_model(attention_config(attention), form, dtype=torch.float32).eval()
    batch = tiny_batch()

    def run(device):
        ids, mask, targets, target_mask = (
            each.to(device)
            for each in (batch.source_ids, batch.source_mask, batch.target_ids, batch.target_mask)
        )
        searched = search(model, ids, mask, SEARCHES[name], **SYMBOLS)
        scored = score_targets(model, ids, mask, target_ids=targets, target_mask=target_mask)
        best = [each for hypotheses in searched for each in hypotheses]
        scores = [each.score for each in best] + [each.log_probability for each in scored]
        return [each.ids for each in best], scores

    texts, scores = run("cpu")
    with pretend_cuda() as cuda:
        cuda.move(model)
        found_texts, found_scores = run(CUDA)

    assert found_texts == texts
    assert found_scores == pytest.approx(scores, rel=1e-5)
    assert not [line for line in cuda.waits if line.startswith(("decoder", "recurrence", "gru"))]


@pytest.mark.parametrize(("kind", "num_waits"), [(GreedyConfig, 7), (BeamConfig, 9)])
def test_a_step_waits_for_the_questions_of_the_search_only(kind, num_waits):
    """Tokens and totals go to the GPU and come back, with the parents and the attention weights.

    Further waits ask whether a sentence is stuck and, in a beam, torn by a tie, and send the order
    of the rows; here no sentence ends.
    """
    model, batch, waits = tiny_model(attention_config("additive")).eval(), tiny_batch(), []
    with pretend_cuda() as cuda:
        arguments = cuda.move(model), batch.source_ids.to(CUDA), batch.source_mask.to(CUDA)
        for length in (2, 6):
            cuda.waits.clear()
            config = kind(max_length_ratio=0.0, max_length_offset=length, min_length=length)
            search(*arguments, config)
            waits.append(cuda.waits.total())

    assert waits[1] - waits[0] == 4 * num_waits
