"""Multi30k (Elliott et al. 2016), image captions in four languages; downloaded at first use."""

import hashlib
import logging
from pathlib import Path

from seq2seq.data.config import Multi30kConfig
from seq2seq.data.corpus import Corpora, load_corpora
from seq2seq.data.files import TextFilesCorpus, file_sha256
from seq2seq.files.atomic import whole_file
from seq2seq.files.paths import expand_home

logger = logging.getLogger(__name__)

RETRY_WAIT = 1.0
"""Seconds; the waits before the further tries grow from it."""
_NUM_RETRIES = 3
_BUSY = (429, 500, 502, 503, 504)
"""Answers after which a request is repeated."""
_TIMEOUTS = (10.0, 30.0)
"""Seconds to connect, and between two parts of the answer."""

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
    _check_names(config)
    train, valid, test = (
        _load_part(config, name=name, prefix=prefix)
        for name, prefix in (("train", "train"), ("valid", "val"), ("test", config.test))
    )
    return Corpora(train=train, valid=valid, test=test)


def _load_part(config: Multi30kConfig, *, name: str, prefix: str) -> TextFilesCorpus:
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


def fetch(url: str, *, path: Path, sha256: str) -> None:
    """Download a file of a few megabytes unless it exists; it is complete or absent.

    If several processes need files of one directory, one downloads them and the others wait.

    Raises:
        ValueError: The file on disk or the download has another SHA-256.
        ConnectionError: The server cannot be reached or does not send the file.
    """
    # Imported here because it is needed at first use only.
    from filelock import FileLock

    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(".download.lock")):
            if not path.exists():
                _download(url, path=path, sha256=sha256)
                return
    found = file_sha256(path)
    if found != sha256:
        raise ValueError(
            f"{path} has SHA-256 {found} instead of {sha256}; delete it to download it again"
        )


def _download(url: str, *, path: Path, sha256: str) -> None:
    # Imported here because requests takes long to load.
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    logger.info("downloading %s", url)
    retries = Retry(
        _NUM_RETRIES,
        backoff_factor=RETRY_WAIT,
        status_forcelist=_BUSY,
        raise_on_status=False,
    )
    try:
        with requests.Session() as session:
            for scheme in ("http://", "https://"):
                session.mount(scheme, HTTPAdapter(max_retries=retries))
            # Some servers call .gz files compressed, and requests would decompress them.
            headers = {"Accept-Encoding": "identity"}
            response = session.get(url, headers=headers, timeout=_TIMEOUTS)
            response.raise_for_status()
    except requests.RequestException as error:
        reason: BaseException = error
        while reason.__context__ is not None:  # outer messages repeat the URL and name objects
            reason = reason.__context__
        raise ConnectionError(
            f"{url}: {reason}; run again, or copy the file to {path} yourself"
        ) from error
    found = hashlib.sha256(response.content).hexdigest()
    if found != sha256:
        raise ValueError(
            f"{url}: the download has SHA-256 {found} instead of {sha256}; "
            f"copy the file to {path} yourself"
        )
    with whole_file(path) as file:
        file.write(response.content)


def _check_names(config: Multi30kConfig) -> None:
    """Raise ValueError unless the files of both languages exist."""
    for prefix in ("train", config.test):
        for language in (config.source, config.target):
            if not config.test.startswith("test") or f"{prefix}.{language}.gz" not in SHA256:
                known = ", ".join(name.removesuffix(".gz") for name in SHA256)
                raise ValueError(
                    f"data.source={config.source}, data.target={config.target} and "
                    f"data.test={config.test} do not exist together; Multi30k has {known}"
                )
