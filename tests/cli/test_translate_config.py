import pytest
from tiny_translator import make_translate_config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": "ja", "input": "a.txt"}, "exclude each other"),
        ({"input": "a", "output": "./a"}, r"output=\./a would overwrite the file of input=a"),
        ({"output": "./run"}, r"output=\./run would overwrite the file of checkpoint=run"),
        ({"output": "a", "alignments": "a"}, "alignments=a would overwrite the file of output=a"),
        (
            {"input": ["a", "b"], "output": ["c", "d", "e"]},
            r"output=\[c,d,e\] names 3 files; give 1 or 2, because the number of inputs is 2$",
        ),
        (
            {"output": ["c", "d"]},
            r"output=\[c,d\] names 2 files; give 1, because the number of inputs is 1$",
        ),
        (
            {"input": ["a", "b"], "reference": "c"},
            "reference=c names 1 files; give 2, because the number of inputs is 2$",
        ),
        (
            {"input": ["a", "b"], "output": ["c", "./b"]},
            r"output=\./b would overwrite the file of input=b",
        ),
        (
            {"input": ["a", "b"], "output": ["c", "c"]},
            "output=c would overwrite the file of output=c",
        ),
        *(
            ({key: "~nobodyatall/a"}, f"^{key}=~nobodyatall/a: Could not determine")
            for key in (
                "input",
                "output",
                "alignments",
                "attention_html",
            )
        ),
        (
            {"input": "a", "reference": "b", "attention_html": "b"},
            "attention_html=b would overwrite the file of reference=b",
        ),
        ({"input": ["a", "b"], "reference": "p"}, "reference=p names 1 files; give 2"),
        ({"reference": "p", "output": "p"}, "output=p would overwrite the file of reference=p"),
    ],
)
def test_invalid_values_are_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        make_translate_config(**{"checkpoint": "run"} | changes)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("reference", "r"),
        ("alignments", "a"),
        ("attention_plot", "a"),
        ("device", "cuda"),
        ("precision", "bf16"),
    ],
)
def test_a_key_that_needs_torch_is_refused_with_an_exported_folder(tmp_path, key, value):
    (tmp_path / "runtime.json").touch()

    with pytest.raises(ValueError, match=f"^{key}=.* needs torch, which checkpoint="):
        make_translate_config(tmp_path, input="i", **{key: value})


def test_one_file_may_be_read_twice_and_one_device_written_twice():
    same = make_translate_config("run", input="a", reference="a")
    discarded = make_translate_config("run", output="/dev/null", alignments="/dev/null")

    assert same.reference == ["a"]
    assert discarded.output == ["/dev/null"]


def test_output_does_not_replace_the_checkpoint_of_a_directory(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "best.pt").touch()

    with pytest.raises(ValueError, match=r"best\.pt would overwrite the file of checkpoint="):
        make_translate_config(run, output=str(run / "best.pt"))
