import pytest

from upsilon_jax.config import Schedule, build_method, load_config, make_schedule
from upsilon_jax.methods import METHODS


def schedule(**changes):
    values = dict(
        steps_per_epoch=10,
        epochs=12,
        pretrain_epochs=5,
        refresh_epochs=2,
        save_epochs=4,
        eval_epochs=3,
        report_epochs=2,
    )
    return Schedule(**{**values, **changes})


def test_refreshes_start_at_the_end_of_pretraining_and_stop_before_the_end():
    due = [e for e in range(13) if schedule().refresh_due(e)]
    assert due == [5, 6, 8, 10]


def test_a_method_without_refresh_is_never_due():
    assert not any(schedule(refresh_epochs=None).refresh_due(e) for e in range(13))


def test_the_last_epoch_is_always_saved():
    assert [e for e in range(1, 11) if schedule(epochs=10).save_due(e)] == [4, 8, 10]


def test_accuracies_are_measured_now_and_then_and_in_all_reported_epochs():
    due = lambda **changes: [
        e for e in range(1, 13) if schedule(**changes).evaluate_due(e)
    ]
    assert due() == [3, 6, 9, 11, 12]
    assert due(eval_epochs=20) == [11, 12]
    assert due(eval_epochs=1) == due(report_epochs=100) == list(range(1, 13))
    assert due(eval_epochs=12, report_epochs=1) == [12]


@pytest.mark.parametrize(
    ("epochs", "given", "expected"),
    [(1, None, 1), (50, None, 1), (99, None, 1), (100, None, 2), (400, None, 8)]
    + [(400, 3, 3), (10, 7, 7)],
)
def test_long_runs_are_evaluated_less_often(epochs, given, expected):
    config = load_config("digits", "baseline")
    config.train.update(epochs=epochs, pretrain_epochs=0, eval_epochs=given)
    made = make_schedule(config, METHODS["baseline"](6), 400)
    assert (made.eval_epochs, made.report_epochs) == (expected, 5)


def test_units_become_steps(monkeypatch):
    seen = {}

    def factory(num_classes, *, ramp_steps=0, start_steps=0, weight=1.0):
        seen.update(ramp_steps=ramp_steps, start_steps=start_steps, weight=weight)
        return METHODS["baseline"](num_classes)

    monkeypatch.setitem(METHODS, "fake", factory)
    config = load_config("digits", "baseline")
    config.method.unlock()
    config.method.update(name="fake", ramp_percent=40, start_epochs=3, weight=2.0)
    build_method(config, 6, 4, num_unlabeled=400)  # 13 steps an epoch, 60 epochs
    assert seen == {"ramp_steps": 312, "start_steps": 39, "weight": 2.0}


def test_more_unlabeled_rows_a_step_make_fewer_steps_an_epoch():
    config = load_config("digits", "fixmatch")
    config.train.batch_size = 32
    steps = []
    for ratio in (1, 2, 7, 1024):
        config.data.unlabeled_ratio = ratio
        steps.append(make_schedule(config, METHODS["fixmatch"](6), 400).steps_per_epoch)
    assert steps == [13, 7, 2, 1]
