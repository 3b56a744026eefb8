"""Multi30k (Elliott et al. 2016), image captions in four languages; downloaded at first use."""

from seq2seq.data.config import Multi30kConfig
from seq2seq.data.corpus import Corpora, load_corpora
from seq2seq.data.files.corpus import TextFilesCorpus
from seq2seq.files.paths import expand_home

SHA256 = {
    "test_2016_flickr.cs.gz": "200a4a74cc9560f051924abb9803be008d1908d77f747e9141aeb86dfd2797f1",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
    "test_2017_flickr.de.gz": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
    "test_2017_flickr.en.gz": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
    "test_2017_flickr.fr.gz": "3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496",
    "test_2017_mscoco.de.gz": "799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338",
    "test_2017_mscoco.en.gz": "aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58",
    "test_2017_mscoco.fr.gz": "754f3072ba9f124569ba5258b32730fc1d214bbf8e0c6dfb2b74401676220db0",
    "test_2018_flickr.cs.gz": "7d0a9db904f94c554a8c58049a9f3a5357c27f46cc3d710d70cb0b4a2585b8c2",
    "test_2018_flickr.de.gz": "ddd0130c7d97482dc5197a02141dae8dd79f20f03586c480d675c09a32daf608",
    "test_2018_flickr.en.gz": "ef4f4844037d4c5dea75c9a8ed5fd78905967a26f67c255e230cc9780032654d",
    "test_2018_flickr.fr.gz": "fb2b83fcceb937a4f7e3e93c1c51c22aba92f1e342391e6b5ba392b16a920501",
    "train.cs.gz": "a65adb8b32e3bc664f21ecba7a6e7f6950fd1f405e135f7c312faabdb6255077",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.cs.gz": "b63226e05c4bd5dd6a42897d74b86a1b9d2c31498252c572b1ea7f7996927fcc",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
}
"""Hash of each file that exists at the source."""


@load_corpora.register
def load_multi30k(config: Multi30kConfig) -> Corpora:
    """Open the corpora of two languages; download missing files.

    Raises:
        ValueError: There is no such language or test set, or a file has another hash.
        ConnectionError: A file cannot be downloaded.
    """
    _check_languages(config)
    _check_test_set(config)
    train, valid, test = (
        _load_part(config, name=name, prefix=prefix)
        for name, prefix in (("train", "train"), ("valid", "val"), ("test", config.test))
    )
    return Corpora(train=train, valid=valid, test=test)


def _load_part(config: Multi30kConfig, *, name: str, prefix: str) -> TextFilesCorpus:
    # Imported here because requests takes long to load.
    from seq2seq.data.download import fetch

    root = expand_home(config.root, key="data.root")
    file_names = [f"{prefix}.{language}.gz" for language in (config.source, config.target)]
    for file_name in file_names:
        url = f"{config.base_url.rstrip('/')}/{file_name}"
        fetch(url, path=root / file_name, sha256=SHA256[file_name])
    return TextFilesCorpus(
        name,
        paths=[root / file_name for file_name in file_names],
        empty_lines=config.empty_lines,
        invalid_utf8=config.invalid_utf8,
        allow_tabs=True,  # one caption has one
    )


def _check_languages(config: Multi30kConfig) -> None:
    known = _languages("train")
    for key, language in (("source", config.source), ("target", config.target)):
        if language not in known:
            raise ValueError(f"unknown data.{key} {language!r}; one of: {', '.join(known)}")


def _check_test_set(config: Multi30kConfig) -> None:
    test_sets = sorted({name.split(".")[0] for name in SHA256 if name.startswith("test")})
    languages = {config.source, config.target}
    if config.test in test_sets and languages <= set(_languages(config.test)):
        return
    existing = ", ".join(f"{name} ({' '.join(_languages(name))})" for name in test_sets)
    raise ValueError(
        f"data.test={config.test} does not exist for {config.source} and {config.target}; "
        f"one of: {existing}"
    )


def _languages(prefix: str) -> list[str]:
    parts = (file_name.split(".") for file_name in SHA256)
    return sorted(language for part, language, _ in parts if part == prefix)
