"""Figures show what they say, from whole results and from summaries."""

import numpy as np
import pytest

from tests.report.made import CLASSES, desk, found, history, runs, write
from upsilon_jax.errors import UserError
from upsilon_jax.report.figures import FIGURES, draw_figure
from upsilon_jax.report.figures.style import MOST_PANELS, look_of
from upsilon_jax.report.measures import MEASURES
from upsilon_jax.report.published import TITLES
from upsilon_jax.report.results import read_runs, write_summaries
from upsilon_jax.workdir import findings
from upsilon_jax.workdir.schema import Imbalance

ACCURACY = MEASURES["accuracy"]


def lines(axis):
    """label → (x, y) of its lines."""
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axis.lines
    }


def swept(**fields):
    """The Υ-Model with other values of fields, and PL and the baseline."""
    name = "".join(fields)
    found = [
        desk(
            "upsilon",
            1.0,
            0.6 + 0.01 * place + 0.001 * seed,
            seed,
            fields={f"method.{name}": value},
            history=history("upsilon", seconds=1.0 + place),
        )
        for place, value in enumerate(fields[name])
        for seed in (0, 1)
    ]
    plain = [desk(m, 1.0, 0.55, seed) for m in ("pl", "baseline") for seed in (0, 1)]
    return runs(*found, *plain)


def test_accuracy_against_the_ratio_has_the_papers_curve_beside_ours():
    made = [
        desk("pl", ratio, 0.6 - 0.04 * ratio + 0.01 * seed, seed)
        for ratio in (0.0, 0.5, 1.0)
        for seed in (0, 1)
    ]
    figure = FIGURES["ratio"](runs(*made, desk("baseline", 1.0, 0.58)), ACCURACY)
    shown = lines(figure.axes[0])
    assert shown["PL"][0] == [0.0, 0.5, 1.0]
    np.testing.assert_allclose(shown["PL"][1], [60.5, 58.5, 56.5])
    printed = lines(figure.axes[1])
    assert printed["PL"] == (
        [0.0, 0.25, 0.5, 0.75, 1.0],
        [78.23, 76.50, 75.85, 74.60, 73.97],
    )
    assert set(printed["Baseline"][1]) == {76.21}
    assert "as printed in the paper" in figure.axes[1].get_title()
    assert shown["Baseline"][0] == [0.0, 0.5, 1.0]  # though run at one ratio only
    np.testing.assert_allclose(shown["Baseline"][1], 58)
    bands = [band.get_paths()[0].vertices for band in figure.axes[0].collections]
    assert max(b[:, 1].max() for b in bands) == pytest.approx(60.5 + 0.5**0.5)


def test_a_line_is_of_the_seeds_that_it_has_at_all_its_points():
    made = [
        desk("pl", ratio, 0.6 + 0.01 * seed, seed)
        for ratio, seeds in ((0.0, (0, 1)), (1.0, (0, 1, 2, 3)))
        for seed in seeds
    ]
    shown = lines(FIGURES["ratio"](runs(*made), ACCURACY).axes[0])
    np.testing.assert_allclose(shown["PL"][1], [60.5, 60.5])
    apart = [desk("pl", 0.0, 0.6, 0), desk("pl", 1.0, 0.7, 1)]
    shown = lines(FIGURES["ratio"](runs(*apart), ACCURACY).axes[0])
    np.testing.assert_allclose(shown["PL"][1], [60.0, 70.0])


def test_another_metric_has_no_published_curve():
    (axis,) = FIGURES["ratio"](runs(desk("pl", 1, 0.6)), MEASURES["auroc"]).axes
    assert lines(axis)["PL"] == ([1], [0.6])


def test_confusion_is_a_rectangle_of_shares_of_all_test_classes():
    one, other = (desk("pl", 1.0, 0.6, seed) for seed in (0, 1))
    figure = FIGURES["confusion"](runs(one, other, desk("pl", 0.0, 0.7, 5)), ACCURACY)
    image = figure.axes[0].images[0].get_array()
    assert image.shape == (6, 10)
    counts = np.array(one.confusion) + np.array(other.confusion)
    np.testing.assert_allclose(image, 100 * (counts / counts.sum(1)[:, None]).T)
    ticks = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert ticks == CLASSES


def test_the_share_of_foreign_images_labeled_as_id_is_of_all_foreign_images():
    """100 ID labels of which 45 % are on the 5,000 foreign images: 0.9 %."""
    figure = FIGURES["ood_share"](runs(desk("pl", 0.5, 0.6)), ACCURACY)
    epochs, shares = lines(figure.axes[0])["PL"]
    assert epochs == [1, 2, 3, 4, 5, 6] and shares[0] == pytest.approx(0.9)


def test_accuracy_against_the_number_of_clusters():
    figure = FIGURES["clusters"](swept(num_clusters=[2, 4, 8]), ACCURACY)
    shown = lines(figure.axes[0])
    assert shown["100 % foreign"][0] == [2, 4, 8]
    np.testing.assert_allclose(shown["100 % foreign"][1], [60.05, 61.05, 62.05])
    np.testing.assert_allclose(shown["Baseline"][1], 55)


def test_there_may_be_more_ratios_than_marks_and_colours():
    ratios = [number / 20 for number in range(20)]
    found = runs(
        *(
            desk("upsilon", ratio, 0.6, fields={"method.num_clusters": k})
            for ratio in ratios
            for k in (2, 4)
        )
    )
    shown = lines(FIGURES["clusters"](found, ACCURACY).axes[0])
    assert list(shown) == [f"{100 * ratio:g} % foreign" for ratio in ratios]


def test_clusters_are_compared_at_otherwise_equal_settings():
    other = swept(num_iters=[8])[:2]
    figure = FIGURES["clusters"]([*swept(num_clusters=[2, 4]), *other], ACCURACY)
    assert lines(figure.axes[0])["100 % foreign"][0] == [2, 4]


@pytest.mark.parametrize("field", ["num_clusters", "num_iters"])
def test_cost_is_relative_to_pl_of_the_same_seed(field):
    figure = FIGURES["cost"](swept(**{field: [1, 4, 16]}), ACCURACY)
    assert len(figure.axes) == 2
    times = figure.axes[1].containers[0].lines[0]
    assert list(times.get_xdata()) == [1, 4, 16]
    np.testing.assert_allclose(np.array(times.get_ydata(), float), [1, 2, 3])
    assert figure.axes[0].get_xscale() == "log"


@pytest.fixture(scope="module")
def with_findings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    write(folder, *(desk("baseline", 0.5, 0.6, seed) for seed in (0, 1)))
    for seed in (0, 1):
        findings.save(
            folder / f"{seed}" / "findings.npz", found(seed, count=60, tested=40)
        )
    return read_runs(folder)


def test_histograms_of_summaries_are_those_of_the_findings(with_findings, tmp_path):
    write_summaries(with_findings, tmp_path)
    heights = []
    for made in (with_findings, read_runs(tmp_path)):
        figure = FIGURES["histograms"](made, ACCURACY)
        heights.append([[b.get_height() for b in a.patches] for a in figure.axes])
    assert heights[0] == heights[1]
    known, foreign, imbalances = heights[0]
    assert sum(known) == pytest.approx(100) and max(known) < 25
    assert foreign[0] > 50  # most foreign images are taken for birds
    assert imbalances == pytest.approx([0.0105, 0.0131, 0.305, 0.3636])


def test_tsne_shows_features_of_test_images(with_findings, tmp_path):
    figure = FIGURES["tsne"](with_findings, ACCURACY)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[:6] == CLASSES[:6] and names[6] == "airplane (OOD)"
    write(tmp_path, desk("pl", 1.0, 0.6))
    older = found(count=20, tested=40)._replace(test_features=None)
    findings.save(tmp_path / "0" / "findings.npz", older)
    with pytest.raises(UserError, match="features of the test images"):
        FIGURES["tsne"](read_runs(tmp_path), ACCURACY)


def test_random_splits_of_the_classes_are_dots_in_pairs():
    made = [
        desk(
            "baseline",
            0.5,
            0.6,
            seed,
            fields={"data.id_classes": ("random:6",)},
            classes=[*CLASSES[seed:], *CLASSES[:seed]],
            imbalance=Imbalance(0.01 * (1 + seed), 1.0, 0.2, 2.0),
        )
        for seed in range(4)
    ]
    (axis,) = FIGURES["splits"](runs(*made), ACCURACY).axes
    known = axis.collections[0].get_offsets()
    np.testing.assert_allclose(known[:, 1], [0.01, 0.02, 0.03, 0.04])
    same = [desk("baseline", 0.5, 0.6, seed) for seed in range(4)]
    with pytest.raises(UserError, match="several class splits"):
        FIGURES["splits"](runs(*same), ACCURACY)


def test_png_and_svg_are_written_and_the_same_again(tmp_path):
    made = runs(desk("pl", 1.0, 0.6, classes=["$x", *CLASSES[1:]]))
    first = draw_figure("confusion", made, tmp_path / "a" / "one")
    again = draw_figure("confusion", made, tmp_path / "two")
    assert [path.suffix for path in first] == [".png", ".svg"]
    assert first[0].read_bytes().startswith(b"\x89PNG")
    assert first[1].read_bytes() == again[1].read_bytes()
    assert draw_figure("ratio", made, tmp_path / "b.svg") == [tmp_path / "b.svg"]


@pytest.mark.parametrize("name", FIGURES)
def test_what_is_missing_is_said_in_one_line(name, tmp_path):
    with pytest.raises(UserError) as refused:
        draw_figure(name, [], tmp_path / name)
    assert str(refused.value).startswith("no ") and "\n" not in str(refused.value)


def test_too_many_panels_are_refused():
    widths = [{"model.width": width} for width in range(1, MOST_PANELS + 2)]
    with pytest.raises(UserError, match="give a folder with fewer"):
        FIGURES["ratio"](
            runs(*(desk("pl", 1, 0.6, fields=w) for w in widths)), ACCURACY
        )


def test_no_two_methods_look_alike_even_in_grey():
    looks = {look_of(method) for method in (*TITLES, "fixmatch+upsilon")}
    assert len(looks) == len(TITLES) + 1
    assert len({(look.marker, look.line) for look in looks}) == len(looks)
