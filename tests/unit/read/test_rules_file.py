"""Rules for categories: what is read, and what is refused by the rule's number and name."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapreport.ground.errors import InputError, PatternError
from snapreport.read.source import read_rules


def test_a_mapping_looks_in_function_and_file_names() -> None:
    first, second = read_rules('{"attention": "attn|attention", "mlp": "mlp[.]py"}')
    assert (first.category, second.category) == ("attention", "mlp")
    assert first.fits("self_attention", "/x.py")
    assert second.fits("forward", "/a/mlp.py")
    assert not second.fits("forward", "/a/mlpxpy")


def test_a_list_says_where_to_look_and_yaml_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "rules.yml"
    path.write_text(
        "- category: loss\n  function: ^loss$\n  file: train\n- {name: all, file: ''}\n"
    )
    loss, everything = read_rules(str(path))
    assert loss.fits("loss", "/train.py")
    assert not loss.fits("loss", "/test.py")
    assert not loss.fits("lossy", "/train.py")
    assert everything.fits("", "")
    assert loss.text == "function ~ ^loss$ and file ~ train"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": "x", "b": "("}', r"the rules: rule 2 \(b\): '\(' is not a regular expression"),
        ('[{"category": "a"}]', r"rule 1 \(a\) needs a function, a file or a pattern"),
        ('[{"function": "a"}]', "rule 1 has no category"),
        ('["a"]', "rule 1 is a str, not a mapping"),
        ('[{"category": "a", "function": 3}]', r"rule 1 \(a\): function is not text"),
        ('[{"category": "a", "files": "x"}]', "rule 1 has an unknown key 'files'"),
        ("{}", "it has no rules"),
        ("[1, ", "neither JSON nor YAML"),
        ("{a: !!python/object/apply:os.system [ls]}", "neither JSON nor YAML"),
    ],
)
def test_a_rule_that_is_not_well_formed_is_named(text: str, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        read_rules(text)


def test_a_file_that_is_no_mapping_or_list_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("just words")
    with pytest.raises(PatternError, match="rules must be a mapping or a list, not a str"):
        read_rules(str(path))
    with pytest.raises(InputError, match=r"cannot be read: Is a directory"):
        read_rules(str(tmp_path))
