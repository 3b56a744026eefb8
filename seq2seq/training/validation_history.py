"""The scores and small attention maps of every validation, in a file of the run."""

# T target length, S source length

import json
import logging

from seq2seq.evaluation.alignment import mean_over_heads
from seq2seq.special_tokens import EOS
from seq2seq.training.run_directory import RunDirectory
from seq2seq.training.validation import Evaluation, Evaluator

logger = logging.getLogger(__name__)

MAX_MAPS = 100
"""Validations with maps; of more, every second one loses them."""
_MAX_WEIGHTS = 4000
"""Weights of a map; larger ones are left out."""


class ValidationHistory:
    """What each validation found, and the attention of the first reference pairs, teacher-forced.

    All runs with one validation set have the maps of the same pairs, so that they compare.
    """

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._content: dict[str, list[dict[str, object]]] = {"pairs": [], "validations": []}

    def load(self) -> None:
        """Read the history of a run that is resumed, if it has one."""
        if self._directory.validations.is_file():
            try:
                self._content = self._directory.read_validations()
            except ValueError as error:  # not worth a run
                logger.warning("the history of the validations begins anew: %s", error)

    @property
    def scores(self) -> list[dict[str, object]]:
        """Return the scores of each validation."""
        return [
            {name: value for name, value in each.items() if name != "maps"}
            for each in self._content["validations"]
        ]

    def add(self, evaluation: Evaluation, evaluator: Evaluator, *, update: int) -> None:
        """Add a validation, in place of those from its update on, and write the file."""
        # A run that was killed had validated later updates after its last checkpoint.
        kept = [each for each in self._content["validations"] if each["update"] < update]  # type: ignore[operator]
        kept.append({"update": update, **_scores(evaluation)})
        if evaluation.attention:
            kept[-1]["maps"] = [
                (100 * each).round().int().tolist() if each.numel() <= _MAX_WEIGHTS else []
                for each in evaluation.attention
            ]
            self._content["pairs"] = _pairs(evaluator, len(evaluation.attention))
        with_maps = [each for each in kept if "maps" in each]
        for each in with_maps[-2::-2] if len(with_maps) > MAX_MAPS else []:
            del each["maps"]
        self._content["validations"] = kept
        text = json.dumps(self._content, separators=(",", ":"), ensure_ascii=False)
        self._directory.write(self._directory.validations.name, text + "\n")


def _scores(evaluation: Evaluation) -> dict[str, float]:
    scores = {"bleu": evaluation.scores.bleu, "loss": evaluation.loss}
    if evaluation.alignment is not None:
        scores["aer"] = evaluation.alignment.error_rate
    return scores | mean_over_heads(evaluation.heads)


def _pairs(evaluator: Evaluator, number: int) -> list[dict[str, object]]:
    """Return the labels of the tokens of the first pairs."""
    encoded, (source, target) = evaluator.data.encoded, evaluator.tokenizers
    return [
        {
            "source": source.tokens([*encoded.source_rows[row].tolist(), EOS]),
            "target": target.tokens([*encoded.target_rows[row].tolist(), EOS]),
        }
        for row in range(number)
    ]
