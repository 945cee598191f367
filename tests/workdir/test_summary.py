import pathlib

from tests.workdir.test_schema import make_result
from upsilon_jax.workdir.records import plain
from upsilon_jax.workdir.schema import Entry
from upsilon_jax.workdir.summary import summary


def test_a_summary_says_which_accuracy_is_whose():
    history = [Entry(1, 9, {"loss": 1.0}), Entry(2, 18, {"loss": 0.5}, accuracy=0.625)]
    result = make_result(history=history, accuracy_last=0.625)
    mean, live, saved = summary(plain(result), pathlib.Path("run")).splitlines()[1:4]
    assert "50.00%" in mean and "mean of the last 2 epochs" in mean
    assert "25.00%" in live and "live" in live
    assert "62.50%" in saved and "saved" in saved and "last epoch" in saved


def test_a_summary_repeats_what_looked_wrong():
    wrong = ["epoch 8: SEC swallows the unlabeled images", "epoch 9: N is 0"]
    told = lambda warnings: [
        line.split(maxsplit=1)[1]
        for line in summary(
            plain(make_result(warnings=warnings)), pathlib.Path("run")
        ).splitlines()
        if line.startswith("  warning ")
    ]
    assert told(wrong) == wrong and told([]) == told(None) == []
