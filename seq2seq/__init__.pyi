from .attention.base import Attention, AttentionConfig, build_attention, register_attention
from .attention.contract import check_attention
from .attention.normalizers import masked_softmax
from .config.plugins import load_plugins
from .config.schema import TrainConfig, build_model, load_config
from .data.batching import make_batch
from .data.config import DataConfig, TokenizerConfig
from .data.corpus import Corpora, Corpus, Pair, register_data
from .data.tokenizers.interface import TokenizerPair, register_tokenizer
from .data.tokenizers.ruled import train_tokenizers
from .evaluation.measures import Measure
from .export.translator import OnnxTranslator
from .inference.translations import TranslatedHypothesis, TranslatedSentence, Translation
from .inference.translator import Translator
from .model.recurrence import Recurrence, register_decoder
from .model.seq2seq import Seq2Seq
from .search.config import BeamConfig, GreedyConfig, MbrConfig, SamplingConfig
from .search.searches import register_search
from .studies.interventions import Intervention, register_intervention
from .studies.run import load_run
from .training.losses import AuxiliaryLoss, register_loss
from .training.run import run_training
from .training.updates import batch_gradients
from .version import __version__
from .visualization.page import AttentionPage
from .visualization.plots import attention_figure

__all__ = [
    "Attention",
    "AttentionConfig",
    "AttentionPage",
    "AuxiliaryLoss",
    "BeamConfig",
    "Corpora",
    "Corpus",
    "DataConfig",
    "GreedyConfig",
    "Intervention",
    "MbrConfig",
    "Measure",
    "OnnxTranslator",
    "Pair",
    "Recurrence",
    "SamplingConfig",
    "Seq2Seq",
    "TokenizerConfig",
    "TokenizerPair",
    "TrainConfig",
    "TranslatedHypothesis",
    "TranslatedSentence",
    "Translation",
    "Translator",
    "__version__",
    "attention_figure",
    "batch_gradients",
    "build_attention",
    "build_model",
    "check_attention",
    "load_config",
    "load_plugins",
    "load_run",
    "make_batch",
    "masked_softmax",
    "register_attention",
    "register_data",
    "register_decoder",
    "register_intervention",
    "register_loss",
    "register_search",
    "register_tokenizer",
    "run_training",
    "train_tokenizers",
]
