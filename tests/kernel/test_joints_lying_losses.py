"""What is declared is enforced: no loss, storage or question lets one row move an answer further than its noise is for.

The losses lie about their slopes, so that nothing but the clip in the kernel bounds a row; and under add_remove fewer
rows are there than were declared, so that only the public n may be what sums are divided by.
"""

import numpy as np
import pytest

from dperm import Problem
from dperm.kernel.oracle import Oracle
from dperm.mechanisms import VertexQuery
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L1Ball
from kernel.harness import N, P, Table, replay, setting_of
from kernel.joints import LIARS, QUESTIONS, STORAGE, Steep, SteepInEveryOutput, pair_of_answers

ADJACENCIES = list(Adjacency)
# A kernel for a loss that is not dperm's own is compiled every time, once for each storage.
STORED = ["float64", pytest.param("float32", marks=pytest.mark.slow), "sparse"]
CASES = [
    pytest.param(ask, loss, id=f"{ask.__name__}-{loss!r}")
    for ask in QUESTIONS
    for loss in LIARS
    if loss.n_outputs == 1 or "objective" not in ask.__name__  # which takes losses of one margin
]


@pytest.mark.one_case_in(17)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("storage", STORED)
@pytest.mark.parametrize(("ask", "loss"), CASES)
def test_a_loss_that_lies_about_its_slope_moves_no_answer_beyond_its_sensitivity(ask, loss, storage, adjacency):
    question, one, two = pair_of_answers(ask, loss, adjacency, storage)
    moved = np.linalg.norm(one - two)
    assert moved <= question.declared * (1.0 + 1e-9)
    assert moved >= 0.5 * question.declared  # the row is not just ignored


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("storage", STORED)
@pytest.mark.parametrize("loss", [Steep(), SteepInEveryOutput()], ids=repr)
@pytest.mark.parametrize("noise", ["gumbel", "laplace"])
def test_one_row_of_a_lying_loss_does_not_outvote_three_others_about_a_vertex(loss, storage, noise):
    problem = Problem(loss, domain=L1Ball(1.0), row_norm=1.0)
    table = Table(np.full((N, P), np.nan), np.ones(N))
    table.X[:3], table.y[:3] = np.eye(P)[0], 1e-7  # a slope of a hundred, declared to be at most 1
    table.X[3], table.y[3] = np.eye(P)[1], 1.0  # a slope of a billion
    query = VertexQuery(setting_of(problem, Adjacency.REPLACE_ONE), noise)
    start = (np.zeros(problem.dimension(P)),)
    oracle = replay(
        problem, table, Adjacency.REPLACE_ONE, query, [start], noise=None, oracle_type=Oracle, as_rows=STORAGE[storage]
    )
    chosen = oracle.answers[0].reshape(loss.n_outputs, P)
    assert np.abs(chosen).sum() == 1.0
    assert chosen[:, 0].sum() == -1.0
