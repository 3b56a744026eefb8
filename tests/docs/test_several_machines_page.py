"""Run the scripts of docs/how-to/several-machines.md on clusters of two workers on this machine."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from documents import ROOT, Page
from tiny_translator import SENTENCES, write_checkpoint

from seq2seq import BeamConfig, Translator

PAGE = Page("docs/how-to/several-machines.md")
SLURM, JOIN = PAGE.blocks("bash")
RAY, SPARK = PAGE.blocks("python")
RUN = "checkpoints/grammar-additive"
LINES = SENTENCES * 3


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with a model, in which this test and its processes work."""
    (tmp_path / "my").mkdir()
    (tmp_path / "checkpoints").mkdir()
    write_checkpoint(tmp_path / RUN)
    (tmp_path / "translate.py").symlink_to(ROOT / "translate.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    return tmp_path


def expected(lines: list[str] = LINES) -> list[str]:
    found = Translator.load(RUN, device="cpu")(lines, BeamConfig(beam_size=5))
    return [each.text for each in found]


def run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_slurm_array_translates_parts_that_join_to_the_whole(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("my/large.de").write_text("".join(f"{line}\n" for line in LINES))
    Path("my/translate.sbatch").write_text(SLURM.replace("/16", "/2"))
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    for task in ("1", "2"):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", task)
        run("bash", "my/translate.sbatch")

    run("bash", "-c", JOIN)

    assert Path("my/large.en").read_text() == "".join(f"{text}\n" for text in expected())


@contextlib.contextmanager
def ray_cluster() -> Iterator[str]:
    """Start two nodes of Ray with two processors each; yield their address."""
    nodes = pytest.importorskip("ray.cluster_utils")
    cluster = nodes.Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    try:
        cluster.add_node(num_cpus=2)
        yield cluster.address
    finally:
        cluster.shutdown()


@pytest.mark.slow
def test_ray_adds_translations_to_parquet_and_text(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas = pytest.importorskip("pandas")
    Path("my/ray_translate.py").write_text(RAY)
    Path("my/large.txt").write_text("".join(f"{line}\n" for line in LINES))
    table = pandas.DataFrame({"id": range(len(LINES)), "text": LINES})
    table.to_parquet("my/large.parquet")

    with ray_cluster() as address:
        monkeypatch.setenv("RAY_ADDRESS", address)
        for source in ("large.parquet", "large.txt"):
            paths = (workplace / "my" / source, workplace / "my" / f"{source}.translated")
            run(sys.executable, "my/ray_translate.py", workplace / RUN, "2", *paths)

    found = pandas.read_parquet("my/large.parquet.translated").sort_values("id")
    assert list(found["text"]) == LINES
    assert list(found["translation"]) == expected()
    found = pandas.read_parquet("my/large.txt.translated")
    assert sorted(zip(*found.values.T, strict=True)) == sorted(zip(LINES, expected(), strict=True))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_spark_adds_translations_to_parquet(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyspark = pytest.importorskip("pyspark")
    pandas = pytest.importorskip("pandas")
    Path("my/spark_translate.py").write_text(SPARK)
    table = pandas.DataFrame({"id": range(len(LINES)), "text": LINES})
    table.to_parquet("my/large.parquet")

    paths = ("my/large.parquet", "my/translated")
    submit = (Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master", "local[2]")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    run(*submit, "my/spark_translate.py", workplace / RUN, "2", *paths)

    found = pandas.read_parquet("my/translated").sort_values("id")
    assert list(found["text"]) == LINES
    assert list(found["translation"]) == expected()
