"""Export a trained model to ONNX, and translate with it without torch.

`OnnxTranslator` needs numpy, onnxruntime and sentencepiece only.
"""

from seq2seq.export.translator import OnnxTranslator
from seq2seq.inference.results import TranslatedHypothesis, Translation

__all__ = ["OnnxTranslator", "TranslatedHypothesis", "Translation"]
