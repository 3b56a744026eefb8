import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from seq2seq.config.quoting import quote_value, quote_where_needed

PATHS = [
    "my runs/a.py",
    "a,b/c.py",
    "it's",
    'say "no"',
    "grüße",
    "[a]",
    "{a: b}",
    "a=b",
    "x(1)",
    "end\\",
    "${oc.env:HOME}",
    "a:b",
    "20261122_211516",
    "2026.10",
    "1e3",
    "true",
    "null",
]


def read(argument):
    value = OverridesParser.create().parse_override(argument).value()
    return OmegaConf.to_container(OmegaConf.create({"value": value}), resolve=True)["value"]


@pytest.mark.parametrize("quote", [quote_value, quote_where_needed])
@pytest.mark.parametrize("path", PATHS)
def test_hydra_reads_a_quoted_path_literally(quote, path):
    assert read(f"key={quote(path)}") == path
    assert read(f"key=[{quote(path)},b]") == [path, "b"]


def test_a_plain_path_stays_as_it_is():
    assert quote_where_needed("my runs/0-dot_seed.1+x.py") == "my runs/0-dot_seed.1+x.py"
