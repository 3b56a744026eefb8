"""Searches and forced scoring on a pretended GPU give the results of the CPU."""

import copy
import dataclasses
import itertools

import pytest
import torch
from pretend_cuda import CUDA, pretend_cuda
from tiny_attention import attention_config
from tiny_models import FORMS, TARGET_VOCABULARY_SIZE, tiny_batch, tiny_model

from seq2seq.attention.base import attention_config_types
from seq2seq.inference.translation import score_targets
from seq2seq.search.config import BeamConfig, GreedyConfig, SamplingConfig
from seq2seq.search.registry import search
from seq2seq.special_tokens import EOS

LIMITS = {"max_length_ratio": 0.0, "max_length_offset": 4}
SEARCHES = {
    "greedy": GreedyConfig(**LIMITS),
    "beam": BeamConfig(beam_size=3, **LIMITS),
    "coverage": BeamConfig(beam_size=2, coverage_penalty=0.3, **LIMITS),
    "sampling": SamplingConfig(num_samples=2, seed=5, **LIMITS),
}
CONSTRAINTS = {"prefixes": [[5, 6], [], [7, EOS]], "banned": [[8], [9, 10]]}


def model_of(attention="additive", form="luong", **options):
    return tiny_model(attention_config(attention), form, dtype=torch.float32, **options).eval()


def sources(device):
    batch = tiny_batch()
    ids = batch.source_ids.clone()
    ids[torch.arange(3), batch.source_mask.sum(1) - 1] = EOS
    return ids.to(device), batch.source_mask.to(device)


def found(model, device, config, **constraints):
    return [
        [(each.ids, each.score) for each in hypotheses]
        for hypotheses in search(model, *sources(device), config, **constraints)
    ]


def assert_same(on_cuda, on_cpu):
    for cuda_row, cpu_row in zip(on_cuda, on_cpu, strict=True):
        assert [ids for ids, _ in cuda_row] == [ids for ids, _ in cpu_row]
        scores = [score for _, score in cpu_row]
        assert [score for _, score in cuda_row] == pytest.approx(scores, rel=1e-5)


@pytest.mark.parametrize("constraints", [{}, CONSTRAINTS], ids=["free", "constrained"])
@pytest.mark.parametrize("config", SEARCHES.values(), ids=SEARCHES)
def test_every_search_finds_what_it_finds_on_the_cpu(config, constraints):
    model = model_of(self_attention=True)
    expected = found(model, "cpu", config, **constraints)
    with pretend_cuda() as cuda:
        assert_same(found(cuda.move(model), CUDA, config, **constraints), expected)


@pytest.mark.parametrize(
    ("attention", "form"), list(zip(sorted(attention_config_types()), itertools.cycle(FORMS)))
)
def test_every_model_is_searched_and_scored(attention, form):
    model, batch = model_of(attention, form), tiny_batch()
    ids = batch.target_ids.clamp(max=TARGET_VOCABULARY_SIZE - 1)

    def scores(model, device):
        scored = score_targets(
            model,
            *sources(device),
            target_ids=ids.to(device),
            target_mask=batch.target_mask.to(device),
        )
        return [each.log_probability for each in scored]

    config = BeamConfig(beam_size=2, **LIMITS)
    expected, expected_scores = found(model, "cpu", config), scores(model, "cpu")
    with pretend_cuda() as cuda:
        moved = cuda.move(copy.deepcopy(model))
        assert_same(found(moved, CUDA, config), expected)
        assert scores(moved, CUDA) == pytest.approx(expected_scores, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("config", SEARCHES.values(), ids=SEARCHES)
def test_every_search_runs_in_low_precision(config, dtype):
    with pretend_cuda() as cuda, torch.autocast("cuda", dtype=dtype):
        hypotheses = search(cuda.move(model_of()), *sources(CUDA), config)

    assert len(hypotheses) == 3 and all(hypotheses)


IN_A_STEP = {
    "search/stepwise.py: if not stays.all(): [_local_scalar_dense]",
    "search/constraints.py: if stuck.any(): [_local_scalar_dense]",  # for bans or a least length
}


def test_only_the_questions_of_the_search_make_the_host_wait_in_a_step():
    """The host must know whether a sentence is finished or stuck; the model never makes it wait."""
    model, waits = model_of(), []
    for offset in (2, 6):
        config = GreedyConfig(max_length_ratio=0.0, max_length_offset=offset)
        with pretend_cuda() as cuda:
            moved, arguments = cuda.move(copy.deepcopy(model)), sources(CUDA)
            cuda.clear()
            search(moved, *arguments, config, banned=[[EOS]])
            waits.append(cuda.syncs.copy())

    more = {line: count - waits[0][line] for line, count in waits[1].items()}
    assert {line: count for line, count in more.items() if count} == dict.fromkeys(IN_A_STEP, 4)
    files = {line.partition(":")[0] for line in waits[1]}
    assert all(file.startswith("search/") for file in files)


IN_A_BEAM_STEP = {
    "search/constraints.py: if stuck.any(): [_local_scalar_dense]",
    "search/stepwise.py: if torn.any(): [_local_scalar_dense]",
    "search/beam.py: if not live.all(): [_local_scalar_dense]",
}
EXACTLY_2 = {"min_length": 2, "max_length_offset": 2}
AT_ENDS = {
    "stepwise": {
        "_store_endings(progress.select((~stays).nonzero().squeeze(1)), endings) [nonzero]": 1,
        "progress.sentences.tolist(), [tolist]": 1,
        "progress.cells.tolist(), [tolist]": 1,
        "progress.log_probabilities.tolist(), [tolist]": 1,
        "kept = stays.nonzero().squeeze(1) [nonzero]": 1,
    },
    "beam": {
        "_store_best(beam.select((~live).nonzero().squeeze(1)), endings, n_best=config.n_best) "
        "[nonzero]": 1,
        "rows = zip(beam.sentences.tolist(), cells.tolist(), scores.tolist(), strict=True) "
        "[tolist]": 3,
        "kept = live.nonzero().squeeze(1) [nonzero]": 1,
    },
}
"""Waits of a step in which sentences end, by module and line."""


@pytest.mark.parametrize(
    ("module", "config", "in_a_step"),
    [
        ("stepwise", GreedyConfig(**EXACTLY_2), IN_A_STEP),
        ("beam", BeamConfig(beam_size=3, **EXACTLY_2), IN_A_BEAM_STEP),
    ],
)
def test_sentences_that_end_at_different_lengths_make_the_host_wait_at_each_end(
    module, config, in_a_step
):
    """The least length is the largest here, so no hypothesis ends before."""
    model, waits = model_of(), []
    lengths = tiny_batch().source_mask.sum(dim=1).tolist()
    assert len(set(lengths)) == 3
    for ratio in (0.0, 1.0):
        with pretend_cuda() as cuda:
            moved, arguments = cuda.move(copy.deepcopy(model)), sources(CUDA)
            cuda.clear()
            ratios = {"min_length_ratio": ratio, "max_length_ratio": ratio}
            search(moved, *arguments, dataclasses.replace(config, **ratios))
            waits.append(cuda.syncs.copy())

    more = {line: count - waits[0][line] for line, count in waits[1].items()}
    at_ends = {f"search/{module}.py: {line}": 2 * n for line, n in AT_ENDS[module].items()}
    assert {line: n for line, n in more.items() if n} == {
        **at_ends,
        **dict.fromkeys(in_a_step, max(lengths)),
    }
