"""The scores and small attention maps of every validation, in a file of the run."""

# T target length, S source length

import json
import logging

from seq2seq.training.run_directory import RunDirectory
from seq2seq.training.validation import Evaluation

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

    def add(self, evaluation: Evaluation, *, update: int) -> None:
        """Add a validation, in place of those from its update on, and write the file."""
        # A run that was killed had validated later updates after its last checkpoint.
        kept = [each for each in self._content["validations"] if each["update"] < update]  # type: ignore[operator]
        kept.append({"update": update, **evaluation.scores})
        if maps := evaluation.maps:
            kept[-1]["maps"] = [
                (100 * each).round().int().tolist() if each.numel() <= _MAX_WEIGHTS else []
                for each in maps
            ]
            self._content["pairs"] = [
                {"source": each.source_tokens, "target": each.best.tokens}
                for _, each in evaluation.samples
            ]
        with_maps = [each for each in kept if "maps" in each]
        for each in with_maps[-2::-2] if len(with_maps) > MAX_MAPS else []:
            del each["maps"]
        self._content["validations"] = kept
        text = json.dumps(self._content, separators=(",", ":"), ensure_ascii=False)
        self._directory.write(self._directory.validations.name, text + "\n")
