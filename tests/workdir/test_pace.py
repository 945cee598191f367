"""The time left: two kinds of steps, what comes between them, no compilation."""

import pytest

from upsilon_jax.config import Schedule
from upsilon_jax.workdir.observer import Observer
from upsilon_jax.workdir.pace import Pace, Took
from upsilon_jax.workdir.schema import Entry

# Refreshes are due at 2 and 4, evaluations after every epoch.
SCHEDULE = Schedule(
    steps_per_epoch=10,
    epochs=6,
    pretrain_epochs=2,
    refresh_epochs=2,
    save_epochs=1,
    eval_epochs=1,
    report_epochs=1,
)


def entry(epoch, **seconds):
    return Entry(epoch, 10 * epoch, {"loss": 1.0}, **seconds)


def test_the_first_steps_of_a_kind_wait_for_the_compiler_and_do_not_count():
    pace = Pace(SCHEDULE)
    pace.steps(Took(1, 600.0, supervised=True))
    assert pace.left(1, 0) is None
    pace.steps(Took(4, 4.0, supervised=True))
    # 15 steps of a second; those with unlabeled images have twice the rows
    assert pace.left(5, 0) == 15 * 1.0 + 40 * 2.0
    pace.steps(Took(10, 500.0, supervised=False))
    pace.steps(Took(10, 30.0, supervised=False))
    assert pace.left(40, 4) == 20 * 3.0


def test_what_was_measured_before_the_start_counts_at_once():
    pace = Pace(SCHEDULE)
    pace.expect({True: 1.0, False: 4.0}, refresh=5.0, evaluate=0.5)
    assert pace.left(0, 0) == 20 * 1.0 + 40 * 4.0 + 2 * 5.0 + 6 * 0.5
    pace.steps(Took(10, 20.0, supervised=True))  # slower than expected
    assert 10 * 1.0 < pace.left(10, 1) - (40 * 4.0 + 2 * 5.0 + 5 * 0.5) < 10 * 2.0
    # a run that goes on in the second phase
    assert pace.left(50, 5) == 10 * 4.0 + 0.5


def test_a_method_without_unlabeled_images_has_one_kind_of_steps():
    pace = Pace(SCHEDULE, uses_unlabeled=False)
    assert pace.steps_left(15) == {True: 45, False: 0}
    pace.expect({True: 2.0})
    assert pace.left(15, 1) == 90.0


def test_an_epoch_with_nothing_selected_does_not_change_the_cost_of_the_others():
    pace = Pace(SCHEDULE)
    pace.expect({True: 1.0, False: 4.0})
    pace.steps(Took(10, 10.0, supervised=True))
    assert pace.left(40, 4) == 20 * 4.0


def test_the_least_time_between_steps_counts_and_saving_is_in_it():
    pace = Pace(SCHEDULE)
    pace.expect({True: 1.0, False: 1.0})
    pace.epoch(entry(1, train_seconds=10, evaluate_seconds=9, epoch_seconds=20))
    assert pace.between_left(1) == 5 * 9 + 5 * 1  # evaluations, all else
    pace.epoch(
        entry(
            2,
            train_seconds=10,
            refresh_seconds=30,
            evaluate_seconds=2,
            epoch_seconds=44,
        )
    )
    assert pace.between_left(2) == 1 * 30 + 4 * 2 + 4 * 1
    assert pace.between_left(6) == 0


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_shown_leaves_compilation_out(
    tmp_path, monkeypatch, capsys, terminal, no_tensorboard
):
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    # A run that goes on at step 20, and has 40 to take.
    with Observer(tmp_path, Pace(SCHEDULE), 20) as observer:
        observer.steps(21, {"loss": 1.0}, Took(1, 5000.0, supervised=False))
        first = capsys.readouterr().err
        observer.steps(30, {"loss": 1.0}, Took(9, 18.0, supervised=False))
        observer.epoch(entry(6, accuracy=0.5)._replace(step=60))
    later = capsys.readouterr().err
    assert first and "left" not in first
    assert "00:00 left" in later and "60/60" in later
    if terminal:
        assert "step/s" not in later and "s/step" not in later
