import logging
import math
from pathlib import Path

import pytest
import torch
from tiny_attention import attention_config
from tiny_models import TinyBatch, every_form, gradients_of, tiny_batch, tiny_model
from tiny_training import read_scalars, tiny_config
from torch import Tensor
from torch.nn import functional

from seq2seq.config.schema import TrainConfig, load_config
from seq2seq.data.batching import Batch
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.training.losses import (
    LOSSES,
    AuxiliaryLoss,
    Decoded,
    Term,
    TrainingLoss,
    coverage_loss,
    guided_loss,
    loss_names,
    perplexity,
    register_loss,
    training_loss,
)
from seq2seq.training.preparation import PreparedData, prepare_data
from seq2seq.training.run import check_parts, run_training


def loss_of(
    model: Seq2Seq,
    batch: TinyBatch,
    *,
    label_smoothing: float = 0.0,
    forced_mask: Tensor | None = None,
) -> TrainingLoss:
    rows = torch.arange(batch.source_ids.shape[0])
    config = load_config(f"training.label_smoothing={label_smoothing}").training
    return training_loss(model, Batch(*batch, rows), config, forced_mask=forced_mask)


def tiny_guide(batch: TinyBatch) -> Tensor:
    """Link some of the target tokens to one, two or three real source tokens; EOS to none."""
    generator = torch.Generator().manual_seed(4)
    drawn = torch.rand(batch.target_ids.shape[0], 4, 5, generator=generator) < 0.5
    drawn[:, 1] = False
    drawn &= batch.source_mask.unsqueeze(1) & batch.target_mask.unsqueeze(2)
    return drawn / drawn.sum(-1, keepdim=True).clamp(min=1)


def model_of(name: str = "additive") -> Seq2Seq:
    return tiny_model(attention_config(name)).eval()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_both_cross_entropies_equal_those_of_torch(smoothing):
    model, batch = model_of(), tiny_batch()

    loss = loss_of(model, batch, label_smoothing=smoothing)

    readouts = model(batch.source_ids, batch.source_mask, batch.previous_ids).readouts
    logits = model.decoder.logits(readouts)[batch.target_mask]
    for found, share in ((loss.objective, smoothing), (loss.terms[0, 0], 0.0)):
        expected = functional.cross_entropy(
            logits, batch.target_ids[batch.target_mask], label_smoothing=share, reduction="sum"
        )
        torch.testing.assert_close(found.double(), expected)


def test_guided_loss_is_the_cross_entropy_of_the_mean_of_the_heads():
    model, batch = model_of("multihead"), tiny_batch()
    guide = tiny_guide(batch)

    weights = model(batch.source_ids, batch.source_mask, batch.previous_ids).attention_weights
    guided = guided_loss(weights, guide)

    expected, num_tokens = 0.0, 0
    for row in range(3):
        for target in range(4):
            shares = guide[row, target].tolist()
            num_tokens += any(shares)
            for source in range(5):
                heads = [head[target][source] for head in weights[row].tolist()]
                if shares[source]:
                    expected -= shares[source] * math.log(sum(heads) / len(heads))
    assert guided.total.item() == pytest.approx(expected, rel=1e-6)
    assert guided.num_tokens.item() == num_tokens > 3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_guided_loss_is_finite_for_vanishing_weights(dtype):
    scores = torch.tensor([[[[0.0, -1e4, 3.0]]]], dtype=dtype, requires_grad=True)
    guide = torch.tensor([[[0.5, 0.5, 0.0]]])

    loss = guided_loss(scores.softmax(-1), guide).total

    loss.backward()
    assert loss.dtype == torch.promote_types(dtype, torch.float32)
    assert math.isfinite(loss.item())
    assert loss.item() > 10
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert scores.grad[0, 0, 0, 0] < 0 < scores.grad[0, 0, 0, 2]


def repeated_attention(weights: Tensor, target_mask: Tensor) -> float:
    """Return the coverage loss of weights (B, N, T, S) by a loop over its definition."""
    total = 0.0
    for heads, real in zip(weights.tolist(), target_mask.sum(1).tolist(), strict=True):
        covered = [0.0] * weights.shape[-1]
        for target in range(real):
            for source in range(weights.shape[-1]):
                weight = sum(head[target][source] for head in heads) / len(heads)
                total += min(weight, covered[source])
                covered[source] += weight
    return total


def test_coverage_loss_has_the_gradient_of_its_definition():
    generator = torch.Generator().manual_seed(6)
    scores = torch.randn(3, 2, 4, 5, dtype=torch.float64, generator=generator, requires_grad=True)
    target_mask = tiny_batch().target_mask

    def lose(scores: Tensor) -> Tensor:
        return coverage_loss(scores.softmax(-1), target_mask)

    assert lose(scores).item() == pytest.approx(
        repeated_attention(scores.softmax(-1), target_mask), rel=1e-12
    )
    assert torch.autograd.gradcheck(lose, scores)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("key", ["guided_attention", "coverage_loss"])
def test_an_auxiliary_loss_is_added_with_its_weight(key, free):
    model, batch = model_of(), tiny_batch()
    config = load_config(f"training.{key}=0.7").training
    read = Batch(*batch, torch.arange(3), tiny_guide(batch))
    forced_mask = torch.zeros_like(batch.target_mask) if free else None

    found = training_loss(model, read, config, forced_mask=forced_mask)

    alone = loss_of(model, batch, label_smoothing=config.label_smoothing, forced_mask=forced_mask)
    weights = model(*batch[:3], forced_mask).attention_weights
    num_tokens = batch.target_mask.sum().double()
    terms = {
        "guided_attention": guided_loss(weights, read.guide),
        "coverage_loss": Term(coverage_loss(weights, batch.target_mask), num_tokens),
    }
    total, count = terms[key]
    torch.testing.assert_close(found.objective, alone.objective + 0.7 * total)
    expected = [*alone.terms.flatten().tolist(), total.item(), count.item()]
    assert found.terms.flatten().tolist() == pytest.approx(expected, rel=1e-6)
    assert gradients_of(found.objective, model)["attention.key_projection.weight"].any()


@every_form
@pytest.mark.parametrize("free", [False, True])
def test_a_new_loss_is_one_class_that_reads_the_contexts(form, free, monkeypatch):
    model, batch = tiny_model(attention_config("additive"), form).eval(), tiny_batch()
    forced_mask = torch.zeros_like(batch.target_mask) if free else None

    class ContextNorm(AuxiliaryLoss):
        def compute(self, decoded: Decoded) -> Term:
            norms = decoded.output.contexts.norm(dim=-1)[decoded.batch.target_mask]
            return Term.over(norms.sum(), decoded.batch.num_target_tokens)

    monkeypatch.setattr(LOSSES, "_parts", dict(LOSSES._parts))
    register_loss("context_norm")(ContextNorm)
    config = load_config("training.label_smoothing=0", "+training.losses.context_norm=0.7").training

    found = training_loss(model, Batch(*batch, torch.arange(3)), config, forced_mask=forced_mask)

    memory, _ = model.encode(batch.source_ids, batch.source_mask)
    weights = model(*batch[:3], forced_mask).attention_weights.squeeze(1)  # (B, T, S)
    norms = (weights @ memory.values).norm(dim=-1)[batch.target_mask]
    cross_entropy, total = found.terms[:, 0]
    torch.testing.assert_close(total, norms.sum().detach(), check_dtype=False)
    torch.testing.assert_close(found.objective, cross_entropy + 0.7 * total, check_dtype=False)
    assert gradients_of(found.objective, model)["attention.key_projection.weight"].any()
    assert loss_names(config) == ["loss", "context_norm"]


def test_a_loss_beyond_floats_has_a_perplexity() -> None:
    assert perplexity(1e9) == math.exp(88) < torch.finfo(torch.float32).max  # of TensorBoard


SOURCE = ["a b", "c", "", "ab ba c", "a", "b a"]
TARGET = ["x", "x y", "y", "y yx xx", "", "y x"]
ALIGNMENTS = ["1-0", "0-0 0p1", "0-0", "0-2 2-1", "", "1-1"]
"""The third and the fifth pair are left out, because one side is empty."""
GUIDED = "training.guided_attention=0.5"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["attention=dot", "model.decoder.hidden_size=10"], "^attention=dot: query size 10 "),
        (
            ["attention=none", "decoding=beam", "decoding.coverage_penalty=0.2"],
            r"^decoding\.coverage_penalty=0\.2 needs attention",
        ),
        (
            ["attention=none", GUIDED],
            r"^training\.guided_attention=0\.5 needs attention that .* attention=none ",
        ),
        (
            ["attention=uniform", GUIDED],
            r"^training\.guided_attention=0\.5 needs attention that .* attention=uniform ",
        ),
        (
            ["attention=none", "training.coverage_loss=1"],
            r"^training\.coverage_loss=1\.0 needs attention that .* attention=none does not; .*"
            r" or training\.coverage_loss=0$",
        ),
        (
            ["+training.losses.context_norm=0.1"],
            r"^training\.losses: unknown loss 'context_norm'; one of your own needs ",
        ),
        (["+training.losses.norm=-1"], r"^training\.losses\.norm=-1\.0 must be at least 0$"),
        (["+training.losses.coverage_loss=1"], r"^training\.losses: unknown loss 'coverage_loss'"),
        (
            [GUIDED, "tokenizer=bpe", "tokenizer.sampling_alpha=0.1"],
            r"^training\.guided_attention=0\.5 needs the same tokens in every epoch",
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(overrides, message):
    config = load_config(*overrides)

    with pytest.raises(ValueError, match=message):
        check_parts(config)


def write_text(folder: Path, alignments: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    pairs = list(zip(SOURCE, TARGET, strict=True))
    whole = [pair for pair in pairs if all(pair)]
    for name, kept in (("train", pairs), ("valid", whole), ("test", whole)):
        for side, lines in zip("ab", zip(*kept, strict=True), strict=True):
            (folder / f"{side}.{name}").write_text("".join(f"{line}\n" for line in lines))
    path = folder / "links.txt"
    path.write_text("".join(f"{line}\n" for line in alignments))
    return path


def guided_config(folder: Path, alignments: list[str], *overrides: str) -> TrainConfig:
    path = write_text(folder, alignments)
    train = f"data.train=['{folder}/a.train','{folder}/b.train','{path}']"
    return tiny_config(folder, GUIDED, train, *overrides)


def links_of(data: PreparedData) -> list[set[tuple[int, int]]]:
    """Return the (target token, source token) of each row."""
    links = data.train_links
    assert links is not None
    return [set(map(tuple, links[row].reshape(-1, 2).tolist())) for row in range(len(links))]


def test_pairs_left_out_do_not_shift_the_links_of_others(tmp_path):
    data = prepare_data(guided_config(tmp_path, ALIGNMENTS))

    # Tokens are characters; a space belongs to the word after it.
    assert links_of(data) == [
        {(0, 1), (0, 2)},
        {(0, 0), (1, 0), (2, 0)},
        {(4, 0), (5, 0), (6, 0), (1, 5), (2, 5), (3, 5), (1, 6), (2, 6), (3, 6)}
        | {(4, 1), (5, 1), (6, 1)},
        {(1, 1), (1, 2), (2, 1), (2, 2)},
    ]


def test_links_count_no_tags_and_run_through_all_corpora(tmp_path):
    plain = links_of(prepare_data(guided_config(tmp_path, ALIGNMENTS)))
    files = f"files: ['{tmp_path}/a.train','{tmp_path}/b.train','{tmp_path}/links.txt']"

    corpora = f"data.train={{first: {{{files}}}, second: {{{files}, tag: '<2b>'}}}}"
    data = prepare_data(tiny_config(tmp_path, GUIDED, corpora))

    # The tag is a token. The space after it belongs to the first word.
    moved = ({(t, each) for t, s in row for each in (s + 2, 1)[: 1 + (s == 0)]} for row in plain)
    assert links_of(data) == [*plain, *moved]


def test_long_pairs_do_not_shift_the_links_of_others(tmp_path):
    every = links_of(prepare_data(guided_config(tmp_path, ALIGNMENTS)))

    data = prepare_data(guided_config(tmp_path, ALIGNMENTS, "data.max_length=3"))

    assert data.train.indices.tolist() == [0, 1, 5]
    assert links_of(data) == [every[0], every[1], every[3]]


def test_a_line_without_links_leaves_its_pair_unguided(tmp_path):
    links = links_of(prepare_data(guided_config(tmp_path, ["", "0-1", "", "", "", ""])))

    assert links == [set(), {(1, 0), (2, 0)}, set(), set()]


def test_text_without_any_links_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"attention: the training text has no links; give word"):
        prepare_data(guided_config(tmp_path, [""] * 6))


def test_text_without_a_file_of_links_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"attention: pair 1 has no links; give .*my/a\.align"):
        prepare_data(tiny_config(tmp_path, GUIDED))


def test_weight_zero_uses_no_links(tmp_path):
    config = guided_config(tmp_path, ALIGNMENTS, "training.guided_attention=0")

    assert prepare_data(config).train_links is None


def test_the_fingerprint_depends_on_the_links(tmp_path):
    other = ["0-0", *ALIGNMENTS[1:]]

    first, second, changed = (
        prepare_data(guided_config(tmp_path, links)).fingerprint
        for links in (ALIGNMENTS, ALIGNMENTS, other)
    )

    assert first == second != changed


def test_a_guided_run_draws_its_loss(tmp_path):
    config = guided_config(tmp_path, ALIGNMENTS, "training.max_epochs=1", "training.log_every=1")

    run_training(config, tmp_path / "run")

    curve = read_scalars(tmp_path / "run")["train/guided_attention_loss"]
    assert all(0 < nats < 10 for nats in curve.values())
    assert curve


def test_links_are_read_once_and_logged_each_time(tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    config = guided_config(tmp_path, ALIGNMENTS)
    first = prepare_data(config)
    logged = [message for message in caplog.messages if "guide" in message]
    caplog.clear()
    monkeypatch.setattr("seq2seq.training.losses.link_tokens", None)

    again = prepare_data(config)

    assert links_of(again) == links_of(first)
    assert again.fingerprint == first.fingerprint
    assert [message for message in caplog.messages if "guide" in message] == logged
    assert len(logged) == 1
