"""Pictures: what is drawn are the released and public numbers, and a file gives the same picture as the fit."""

import html
import re
import sys
from copy import copy

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from dperm import PrivateLinearRegression, PrivateLogisticRegression, load_model, save_model
from dperm.accounting.attack import true_positive_rates
from dperm.errors import DpermError, InvalidParameterError, NotInstalledError, UnsupportedProblemError
from dperm.files.content import content_of
from dperm.files.plan_data import solver_from
from dperm.pictures.attack import RATES
from dperm.pictures.bars import DEVIATIONS
from dperm.pictures.contributions import contribution, contributions
from dperm.privacy.guarantee import Adjacency
from dperm.report import render_report
from dperm.report.curves import BOTTOM, LEFT, RIGHT, TOP, effect_drawings
from dperm.schema import Amount, Bins, Category, Classes, Number, Schema

pandas = pytest.importorskip("pandas")
matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

N = 2000
COLUMNS = {
    "age": Number((0, 100), encode="bins", bins="even", n_bins=4),
    "size": Number((-1, 3), encode="linear", missing="column"),
    "sex": Category(["f", "m"], unseen="column"),
    "gain": Bins([1, 5], missing="column"),
}
TWO = Schema(COLUMNS, Classes("kind", ["low", "high"]), n=N)
THREE = Schema(COLUMNS, Classes("level", ["low", "middle", "high"]), n=N)


def table(n=N):
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"age": rng.uniform(0, 100, n), "size": rng.uniform(-1, 3, n)})
    frame["sex"], frame["gain"] = rng.choice(["f", "m"], n), rng.uniform(0, 9, n)
    frame["kind"] = np.where(frame.age > 50, "high", "low")
    frame["level"] = np.where(frame.age > 60, "high", np.where(frame["size"] > 1, "middle", "low"))
    frame["price"] = 10.0 * frame.age
    return frame


@pytest.fixture(scope="module")
def two():
    return PrivateLogisticRegression(1.0, 1e-5, schema=TWO).fit(table())


@pytest.fixture(scope="module")
def three():
    return PrivateLogisticRegression(1.0, 1e-5, schema=THREE).fit(table())


@pytest.fixture(scope="module")
def regression():
    return PrivateLinearRegression(1.0, 1e-5, schema=Schema(COLUMNS, Amount("price", (0, 1000)), n=N)).fit(table())


@pytest.fixture(autouse=True)
def no_figure_stays():
    yield
    plt.close("all")


def dots(axes):
    """Names and places of the dots, from the top."""
    places = np.asarray(axes.collections[-1].get_offsets())
    names = [label.get_text() for label in axes.get_yticklabels()]
    return [(names[round(height)], value) for value, height in places]


def words(axes):
    """All that is written around an axes."""
    texts = (axes.get_title(), axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel())
    return " ".join(texts).replace("\n", " ")


def test_dots_are_coefficients_and_bars_two_deviations_of_their_noise(two):
    axes = two.plot_coefficients(largest=100)
    values = [value for _, value in dots(axes)]
    assert values == two.coef_[0].tolist()
    bars = np.array(axes.collections[0].get_segments())[:, :, 0]
    assert bars[:, 1] - bars[:, 0] == pytest.approx(2 * DEVIATIONS * two.privacy_.coefficient_noise)
    assert bars.mean(axis=1) == pytest.approx(values)
    assert "ε = 1, δ = 1e-05, replace_one" in words(axes)


def test_entries_stand_under_their_column_and_the_largest_are_kept(two):
    axes = two.plot_coefficients(largest=5)
    largest = sorted(np.abs(two.coef_[0]))[-5:]
    assert sorted(abs(value) for _, value in dots(axes)) == pytest.approx(largest)
    assert f"the 5 largest of {two.coef_.size} coefficients" in words(axes)
    every = [label.get_text() for label in two.plot_coefficients(largest=100).get_yticklabels()]
    assert every[:6] == ["age", "at 0", "at 25", "at 50", "at 75", "at 100"]
    assert every[-5:] == ["gain", "gain < 1", "1 ≤ gain < 5", "gain ≥ 5", "(missing)"]


def test_a_dot_is_filled_only_where_noise_does_not_reach_zero(two):
    axes = two.plot_coefficients(largest=100)
    filled = axes.collections[-1].get_facecolors()[:, 0] < 1.0
    assert filled.tolist() == (np.abs(two.coef_[0]) > DEVIATIONS * two.privacy_.coefficient_noise).tolist()
    assert 0 < filled.sum() < filled.size


def test_without_a_schema_the_largest_coefficients_come_first():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 30)) / 6
    model = PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], solver="dp-gd").fit(X, X[:, 3] > 0)
    axes = model.plot_coefficients(largest=4)
    order = np.argsort(-np.abs(model.coef_[0]))[:4]
    assert dots(axes) == [(f"x{place}", model.coef_[0, place]) for place in order]
    assert "no bars: no bound on the noise of a coefficient is known for this solver" in words(axes)
    with pytest.raises(InvalidParameterError, match="need a schema"):
        model.plot_effects()


def test_every_class_has_a_panel_of_its_own(three):
    panels = three.plot_coefficients(largest=100)
    assert [axes.get_title() for axes in panels] == ["low", "middle", "high"]
    for axes, row in zip(panels, three.coef_, strict=True):
        assert axes.collections[-1].get_offsets()[:, 0].tolist() == row.tolist()
    given = plt.subplots(1, 3)[1]
    assert three.plot_coefficients(ax=given).tolist() == given.tolist()
    with pytest.raises(InvalidParameterError, match="3 rows of coefficients, and ax has 1 axes"):
        three.plot_coefficients(ax=given[0])


def scores(model, frame):
    """Of a regression before they are clipped to the target's range."""
    found = model.decision_function(frame) if hasattr(model, "classes_") else model._predicted(frame)
    return np.atleast_2d(found.T)


@pytest.mark.parametrize("name", ["two", "three", "regression"])
def test_a_curve_is_what_the_column_adds_to_the_score(name, request):
    model = request.getfixturevalue(name)
    row = {"age": 30.0, "size": 0.5, "sex": "f", "gain": 0.5}
    total = np.atleast_1d(model.intercept_)[:, None]
    for effect in contributions(model):
        if effect.column == "gain":  # in the middle of every bin
            inside, middle = effect.curve[:, ::2], (effect.numbers[::2] + effect.numbers[1::2]) / 2
            assert (effect.curve[:, 1::2] == inside).all()
        else:
            inside, middle = effect.curve, effect.numbers
        values = [*middle, *({"(missing)": None, "(other)": "x"}.get(label, label) for label in effect.labels)]
        moved = scores(model, pandas.DataFrame([row | {effect.column: value} for value in values]))
        added = np.concatenate([inside, effect.entries], axis=1)
        rest = moved - added
        # A curve is exact, and an entry of an encoded row a float32, rounded towards 0.
        assert rest == pytest.approx(np.repeat(rest[:, :1], rest.shape[1], axis=1), abs=2.0**-23 * np.abs(moved).max())
        at_row = scores(model, pandas.DataFrame([row]))[:, :1] - rest[:, :1]
        total = total + at_row
    assert total == pytest.approx(scores(model, pandas.DataFrame([row])))


def test_the_drawn_curve_and_band_are_those_numbers(two):
    for column, norm in (("age", np.ones(33)), ("size", np.array([1.0, 0.0, 1.0])), ("gain", np.ones(6))):
        effect = contribution(two, column)
        assert effect.sizes == pytest.approx(norm)
        axes = two.plot_effect(column)
        curve = axes.get_lines()[1]
        assert curve.get_xydata().T.tolist() == [effect.numbers.tolist(), effect.curve[0].tolist()]
        edges = axes.collections[0].get_paths()[0].vertices
        far = DEVIATIONS * two.privacy_.coefficient_noise * effect.sizes
        for edge in (effect.curve[0] - far, effect.curve[0] + far):
            for point in zip(effect.numbers, edge, strict=True):
                assert np.isclose(edges, point, rtol=1e-9, atol=1e-12).all(axis=1).any()
        assert "two standard deviations of the privacy noise, at most" in words(axes)
        assert "log odds of high" in words(axes)


def test_several_classes_have_a_curve_each_and_one_band_around_zero(three):
    axes = three.plot_effect("age")
    drawn = {line.get_label(): list(line.get_ydata()) for line in axes.get_lines()}
    effect = contribution(three, "age")
    assert [drawn[label] for label in ("low", "middle", "high")] == effect.curve.tolist()
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert np.abs(heights).max() == pytest.approx(DEVIATIONS * three.privacy_.coefficient_noise)


def test_of_many_classes_those_that_move_the_most_are_drawn(three):
    many = copy(three)
    many.classes_ = np.arange(12)
    many.coef_ = np.random.default_rng(0).normal(size=(12, three.coef_.shape[1])) * np.arange(12)[:, None]
    many.intercept_ = np.zeros(12)
    axes = many.plot_effect("sex")
    spans = np.ptp(many.coef_[:, 7:10], axis=1)
    _, labels = axes.get_legend_handles_labels()
    assert labels == [str(place) for place in np.sort(np.argsort(-spans)[:8])]
    assert "8 of 12 classes" in words(axes)


def test_the_grid_holds_every_column_on_one_scale_or_those_that_are_named(regression, two):
    grid = regression.plot_effects()
    assert [axes.get_title() for axes in grid] == list(COLUMNS)
    assert grid[0].get_ylim() == grid[1].get_ylim() == grid[2].get_xlim() == grid[3].get_ylim()
    assert "the prediction of price" in grid[0].figure.get_suptitle()
    assert [axes.get_title() for axes in two.plot_effects(["sex", "age"])] == ["sex", "age"]
    assert [axes.get_title() for axes in two.plot_effects(largest=1)] == ["age"]


def test_where_no_bound_is_known_no_band_is_drawn_and_the_picture_says_so():
    model = PrivateLogisticRegression(1.0, 1e-5, schema=TWO, solver="dp-gd").fit(table())
    axes = model.plot_effect("age")
    assert not axes.collections
    assert "no band: no bound on the noise of a coefficient" in words(axes)


def test_interactions_are_said_to_be_left_out():
    schema = Schema(COLUMNS, Classes("kind", ["low", "high"]), n=N, interactions=2)
    model = PrivateLogisticRegression(1.0, 1e-5, schema=schema).fit(table())
    assert len(contributions(model)) == len(COLUMNS)
    assert "interactions with other columns come on top" in words(model.plot_effect("age"))


def test_the_attackers_curve_is_the_accountants(two):
    axes = two.plot_attack()
    proved, promised, guessing = axes.get_lines()
    assert proved.get_ydata().tolist() == true_positive_rates(two.event_, Adjacency.REPLACE_ONE, RATES.tolist())
    by_hand = np.minimum(1e-5 + np.e * RATES, 1 - np.exp(-1) * (1 - 1e-5 - RATES)).clip(RATES, 1)
    assert promised.get_ydata() == pytest.approx(by_hand)
    assert (proved.get_ydata() <= promised.get_ydata() + 1e-9).all()
    assert list(guessing.get_xdata()) == list(guessing.get_ydata()) == [0.0, 1.0]
    [caught] = re.findall(r"At 1 % false alarms an attacker catches at most ([\d.]+) %", words(axes))
    exact = 100 * true_positive_rates(two.event_, Adjacency.REPLACE_ONE, [0.01])[0]
    assert exact <= float(caught) <= exact + 0.1
    assert "replace_one" in words(axes)


def test_the_cost_of_noise_is_that_of_the_plans_own_verdict():
    model = PrivateLogisticRegression(0.5, 1e-6)
    curve = model.risk_of_epsilon(4000, 40, [0.005, 9.0])
    assert curve.epsilons == (0.005, 0.5, 9.0)
    for epsilon, share, word in zip(curve.epsilons, curve.shares, curve.words, strict=True):
        verdict = PrivateLogisticRegression(epsilon, 1e-6).plan(4000, 40).verdict
        assert (share, word) == (pytest.approx(verdict.most), verdict.word)
    assert len(set(curve.words)) == 3  # so that the zones mean something
    axes = model.plan(4000, 40).plot_risk_of_epsilon([0.005, 9.0])
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert lines["noise"].get_xydata().T.tolist() == [list(curve.epsilons), list(curve.shares)]
    assert set(lines["a constant predictor"].get_ydata()) == {1.0}
    assert lines["noise at ε = 0.5"].get_xydata().tolist() == [[0.5, curve.shares[1]]]
    assert "replace_one" in words(axes)


def test_noise_that_costs_everything_is_not_called_up_to_100_per_cent_nor_useful():
    strong = PrivateLogisticRegression(9.0, 1e-5, schema=TWO).fit(table())
    assert "the model is useful if they explain more" in render_report(content_of(strong))
    weak = PrivateLogisticRegression(0.02, 1e-5, schema=TWO).fit(table())
    page = " ".join(render_report(content_of(weak)).split())
    assert "noise is expected to cost all, or more, of the loss of a constant predictor. This is estimated" in page
    assert "useful if" not in page


def test_a_fitted_model_is_drawn_for_its_own_numbers(two):
    curve = two.risk_of_epsilon()
    solver = solver_from(content_of(two)["plan"]).name
    assert (curve.epsilon, curve.delta, curve.n) == (1.0, 1e-5, N)
    assert curve.n_features == two.coef_.size
    assert curve == PrivateLogisticRegression(1.0, 1e-5, schema=TWO, solver=solver).risk_of_epsilon()
    with pytest.raises(InvalidParameterError, match="n = 2000 is already declared"):
        two.risk_of_epsilon(n=10)


DRAWN = {
    "coefficients": lambda model: model.plot_coefficients(),
    "effects": lambda model: model.plot_effects(),
    "attack": lambda model: model.plot_attack(),
    "risk": lambda model: model.plot_risk_of_epsilon(epsilons=[0.1, 10.0]),
}


@pytest.mark.parametrize(
    ("name", "what"), [("two", "coefficients"), ("three", "effects"), ("two", "attack"), ("three", "risk")]
)
def test_a_file_gives_the_picture_of_the_fit(name, what, request, tmp_path):
    from dperm.cli.plot import _as_bytes

    model = request.getfixturevalue(name)
    save_model(model, tmp_path / "model.json")
    pictures = [
        _as_bytes(np.atleast_1d(DRAWN[what](each)).flat[0].figure, "svg")
        for each in (model, load_model(tmp_path / "model.json"))
    ]
    assert pictures[0] == pictures[1]


@pytest.mark.filterwarnings("ignore")
def test_a_seeded_model_is_marked_and_one_without_noise_draws_no_promise():
    seeded = PrivateLogisticRegression(1.0, 1e-5, schema=TWO, random_state=1).fit(table())
    for axes in (seeded.plot_coefficients(), seeded.plot_attack(), seeded.plot_effect("age")):
        assert "NOT FOR RELEASE" in words(axes)
    exact = PrivateLogisticRegression(1.0, 1e-5, schema=TWO, noise=None).fit(table())
    assert "no bars: no noise was added" in words(exact.plot_coefficients())
    assert "no band: no noise was added" in words(exact.plot_effect("age"))
    with pytest.raises(InvalidParameterError, match="without noise"):
        exact.plot_attack()
    with pytest.raises(InvalidParameterError, match="not certified"):
        exact.plot_risk_of_epsilon()


def test_a_network_refuses_what_makes_no_sense(two):
    pytest.importorskip("jax")
    from dperm import PrivateMLPClassifier

    network = PrivateMLPClassifier(1.0, 1e-5, schema=TWO, hidden_layer_sizes=(2,), solver="dp-gd")
    with pytest.raises(UnsupportedProblemError, match="is not known in advance for functions"):
        network.plot_risk_of_epsilon()
    network.privacy_, network.event_ = two.privacy_, two.event_  # as if it were fitted: that takes long
    for draw in (network.plot_coefficients, network.plot_effects, lambda: network.plot_effect("age")):
        with pytest.raises(InvalidParameterError, match="single weights of a network have no meaning"):
            draw()
    assert "At 1 % false alarms" in words(network.plot_attack())


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda model: model.plot_effect("height"), r"no column 'height'; it has 'age', 'size', 'sex', 'gain'"),
        (lambda model: model.plot_effect(3), "no column 3"),
        (lambda model: model.plot_effects("age"), "columns must be a list of names"),
        (lambda model: model.plot_effects(5), "columns must be a list of names"),
        (lambda model: model.plot_effect("age", ax="x"), "ax must be an Axes of matplotlib, got str"),
        (lambda model: model.plot_coefficients(ax=5), "ax must be an Axes of matplotlib, got int"),
        (lambda model: model.plot_risk_of_epsilon(n_features=0, n=0), "n = 2000 is already declared, and n = 0"),
        (lambda model: model.plot_effects([]), "at least one column"),
        (lambda model: model.plot_effects(largest=0), "largest must be a positive integer"),
        (lambda model: model.plot_coefficients(largest=2.5), "largest must be a positive integer"),
        (lambda model: model.plot_risk_of_epsilon(epsilons=[0.0, 1.0]), "epsilon must be above 0"),
        (lambda model: model.plot_risk_of_epsilon(epsilons="ab"), "epsilons must be a list of numbers"),
        (lambda model: model.plot_risk_of_epsilon(epsilons=[1.0]), "a number other than the fit's own"),
    ],
)
def test_wrong_parameters_are_one_sentence(two, draw, message):
    with pytest.raises(InvalidParameterError, match=message):
        draw(two)
    assert not plt.get_fignums()


def test_an_unfitted_model_has_only_its_outlook_to_draw():
    model = PrivateLogisticRegression()
    for draw in (model.plot_coefficients, model.plot_effects, model.plot_attack):
        with pytest.raises(NotFittedError):
            draw()
    with pytest.raises(InvalidParameterError, match="n must be a positive integer"):
        model.plot_risk_of_epsilon()
    with pytest.raises(UnsupportedProblemError, match="without noise"):
        PrivateLogisticRegression(noise=None).plot_risk_of_epsilon(100, 3)
    with pytest.raises(UnsupportedProblemError, match="only for certified noise and the accountant pld"):
        PrivateLogisticRegression(noise="paper").plot_risk_of_epsilon(100, 3)


def test_names_are_text_and_no_formula():
    name, long = "gain in $ of $\n", "a_long_name_" * 40
    frame = table().rename(columns={"age": name, "sex": long})
    columns = {name: COLUMNS["age"], long: Category(["f", "m", "$x^2$"])}
    model = PrivateLogisticRegression(1.0, 1e-5, schema=Schema(columns, Classes("kind", ["low", "high"]))).fit(frame)
    model.plot_effects()[0].figure.canvas.draw()
    axes = model.plot_coefficients(largest=100)
    axes.figure.canvas.draw()
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert r"gain in \$ of \$\n" in labels
    assert r"\$x^2\$" in labels
    assert max(map(len, labels)) <= 40


def test_without_matplotlib_a_sentence_says_what_to_install(two, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
    for draw in (two.plot_coefficients, two.plot_effects, two.plot_attack, two.plot_risk_of_epsilon):
        with pytest.raises(NotInstalledError, match=r"pip install 'dperm\[plot\]'"):
            draw()


def test_every_model_has_the_methods_and_they_raise_nothing_but_sentences(regression):
    from dperm.models.registry import models

    for kind in models().values():
        with pytest.raises((DpermError, NotFittedError)):
            kind().plot_effects()
    assert regression.privacy_.coefficient_noise is None
    regression.plot_coefficients()
    regression.plot_attack()


def report_curves(page):
    return [np.array([pair.split(",") for pair in points.split()], float) for points in re.findall(
        r'<polyline points="([^"]+)" fill="none" stroke="var\(--blue\)" stroke-width="2" ', page)]  # fmt: skip


def test_the_report_draws_the_same_curves(two):
    page = render_report(content_of(two))
    drawn = report_curves(page)
    numeric = [effect for effect in contributions(two) if effect.numbers.size]
    assert len(drawn) == len(numeric) == 3
    every = np.concatenate([points[:, 1] for points in drawn])
    values = np.concatenate([effect.curve[0] for effect in numeric])
    slope, height = np.polyfit(values, every, 1)
    assert slope < 0
    assert height + slope * values == pytest.approx(every, abs=0.1)  # one scale for all, rounded to a tenth of a pixel
    for points, effect in zip(drawn, numeric, strict=True):
        share = (effect.numbers - effect.numbers[0]) / np.ptp(effect.numbers)
        assert points[:, 0] == pytest.approx(LEFT + share * (RIGHT - LEFT), abs=0.06)
        assert (points[:, 1] >= TOP).all()
        assert (points[:, 1] <= BOTTOM).all()
    sentence = str(two.risk_of_epsilon()).replace("(replace_one)", "(one person's row replaced by any other)")
    assert " ".join(sentence.split()) in " ".join(html.unescape(page).split())


def test_the_report_of_many_columns_draws_those_that_add_the_most():
    names = [f"c{place}" for place in range(30)]
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.uniform(0, 1, (500, 30)), columns=names)
    frame["kind"] = np.where(frame.c7 > 0.5, "high", "low")
    schema = Schema({name: Number((0, 1), encode="linear") for name in names}, Classes("kind", ["low", "high"]))
    model = PrivateLogisticRegression(1.0, 1e-5, schema=schema).fit(frame)
    largest = np.sort(np.argsort(-np.abs(model.coef_[0]), kind="stable")[:24])
    assert [drawing.title for drawing in effect_drawings(model)] == [names[place] for place in largest]
    assert "shown are the 24 that add the most" in render_report(content_of(model))


def test_coefficients_of_any_size_give_a_report(two):
    content = content_of(two)
    content["coef"][0][:4] = [1e308, -1e308, 1.7e308, 5e-324]
    content["privacy"]["coefficient_noise"] = 1e308
    assert "NOT VERIFIED" in render_report(content)
