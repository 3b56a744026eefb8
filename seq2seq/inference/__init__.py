"""Translate with trained models, alone or as an ensemble, and score known translations.

Example:
    >>> from seq2seq import GreedyConfig, Translator, build_model, load_config
    >>> from seq2seq.data import CharacterTokenizer, TokenizerPair
    >>> from seq2seq.runtime.numerics import Device, Precision, choose_numerics
    >>> tokenizers = TokenizerPair(CharacterTokenizer("abc"), CharacterTokenizer("xyz"))
    >>> sizes = {"source_vocabulary_size": 7, "target_vocabulary_size": 7}
    >>> model = build_model(load_config("attention=dot"), **sizes)  # not trained
    >>> numerics = choose_numerics(Device.cpu, Precision.fp32)
    >>> greedy = GreedyConfig()
    >>> translator = Translator(model, tokenizers=tokenizers, numerics=numerics, decoding=greedy)
    >>> [translation] = translator(["abc"])
    >>> translation.source_tokens
    ['a', 'b', 'c', '</s>']
"""
