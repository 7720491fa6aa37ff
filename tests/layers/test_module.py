"""Modules against our own queries, enumeration and finite differences."""

import random
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import strudel
from column_circuits import category_column, column_circuits, deterministic_circuit, joint_of
from joint import NAN, Joint, special_circuits, special_mixtures
from strategies import examples, seeds, vtrees
from strudel import to_torch
from strudel.circuits import figure_1_circuit
from strudel.queries.cells import log_probabilities
from strudel.queries.given import circuit_of
from strudel.tables.evidence import evidence_of
from strudel.tables.schema import Columns

torch = pytest.importorskip("torch")

CIRCUITS = list(special_circuits())
MIXTURES = list(special_mixtures())
DOUBLE = torch.float64


@pytest.fixture(params=[*CIRCUITS, *(f"mixture: {name}" for name in MIXTURES)])
def model(request):
    name = request.param
    is_mixture = name.startswith("mixture: ")
    return special_mixtures()[name[9:]] if is_mixture else special_circuits()[name]


def rows_of(model, seed=0, n_rows=8):
    """Partly observed rows that are possible, and one of which nothing is known."""
    rng = np.random.default_rng(seed)
    rows = strudel.sample(model, n_rows, random_state=seed).astype(float)
    rows[rng.random(rows.shape) < 0.6] = NAN
    return np.vstack([rows, np.full(model.vtree.n_vars, NAN)])


def test_log_prob_is_that_of_the_model(model):
    rows = rows_of(model)
    want = strudel.log_marginal(model, rows)
    for dtype, tolerance in ((DOUBLE, 1e-10), (torch.float32, 1e-5)):
        found = to_torch(model, dtype=dtype).log_prob(torch.tensor(rows))
        assert found.dtype == dtype
        np.testing.assert_allclose(found.detach(), want, rtol=tolerance, atol=tolerance)


def test_a_mask_says_what_is_known():
    circuit = special_circuits()["learned 0"]
    module = to_torch(circuit, dtype=DOUBLE)
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (20, circuit.vtree.n_vars)).astype(float)
    mask = rng.random(rows.shape) < 0.5
    found = module.log_prob(torch.tensor(rows), mask=torch.tensor(mask))
    want = strudel.log_marginal(circuit, np.where(mask, rows, NAN))
    np.testing.assert_allclose(found.detach(), want, rtol=1e-10)


def test_an_impossible_row_has_log_probability_minus_infinity_and_no_gradient():
    circuit = special_circuits()["zeros"]  # x0 is never 1
    module = to_torch(circuit, dtype=DOUBLE)
    rows = torch.tensor([[1.0, 1, 0, 0, 0], [0, 1, 0, 0, 0]], dtype=DOUBLE)
    log_p = module.log_prob(rows)
    assert log_p[0] == -torch.inf
    log_p[1].backward()
    assert torch.isfinite(module.logits.grad).all()
    marginals = module.marginals(rows)
    assert torch.isnan(marginals[0]).all()
    assert torch.isfinite(marginals[1]).all()


def test_marginals_are_those_of_the_model(model):
    rows = rows_of(model, 1)
    want = strudel.marginal_probabilities(model, rows)
    module = to_torch(model, dtype=DOUBLE)
    np.testing.assert_allclose(module.marginals(rows).detach(), want, rtol=1e-9, atol=1e-12)
    with torch.no_grad():
        np.testing.assert_allclose(module.marginals(rows), want, rtol=1e-9, atol=1e-12)


def test_soft_evidence_weighs_the_rows(model):
    joint = Joint(model)
    n_vars = model.vtree.n_vars
    soft = np.random.default_rng(0).random((3, n_vars, 2))
    module = to_torch(model, dtype=DOUBLE)
    given = torch.tensor(soft, requires_grad=True)
    log_p = module.log_prob(soft=given)
    picked = soft[:, np.arange(n_vars), joint.states.astype(int)].prod(axis=2)
    np.testing.assert_allclose(log_p.exp().detach(), picked @ joint.p, rtol=1e-9)
    # Likelihood times gradient is the probability of the value.
    log_p.sum().backward()
    shares = (given * given.grad).detach()
    np.testing.assert_allclose(shares.sum(dim=2), np.ones((3, n_vars)), rtol=1e-9)
    weight = picked * joint.p
    ones = (weight @ joint.states) / weight.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares[:, :, 1], ones, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["figure 1", "one variable", "learned 1", "fair coins"])
def test_the_most_probable_state_is_that_of_the_model(name):
    circuit = special_circuits()[name]
    rows = rows_of(circuit, 2)
    states, log_p = to_torch(circuit, dtype=DOUBLE).most_probable_state(rows)
    want, want_log_p = strudel.most_probable_state(circuit, rows)
    np.testing.assert_allclose(log_p, want_log_p, rtol=1e-9)
    np.testing.assert_allclose(strudel.log_likelihood(circuit, states.numpy()), want_log_p)
    known = ~np.isnan(rows)
    assert (states.numpy()[known] == rows[known]).all()
    assert want.shape == states.shape


@pytest.mark.parametrize("name", ["figure 1", "a literal", "learned 0", "zeros", "fair coins"])
def test_samples_of_a_circuit_follow_it(name):
    check_samples(special_circuits()[name])


@pytest.mark.parametrize("name", ["learned", "one left", "a literal"])
def test_samples_of_a_mixture_follow_it(name):
    check_samples(special_mixtures()[name])


def check_samples(model):
    module = to_torch(model)
    draws = module.sample(4000, generator=torch.Generator().manual_seed(0))
    want = strudel.marginal_probabilities(model)
    np.testing.assert_allclose(draws.mean(dim=0), want, atol=0.04)
    assert np.isfinite(strudel.log_likelihood(model, draws.numpy())).all()
    given = np.full(model.vtree.n_vars, NAN)
    given[0] = draws[0, 0].item()
    draws = module.sample(3000, given, generator=torch.Generator().manual_seed(1))
    assert (draws[:, 0] == given[0]).all()
    want = strudel.marginal_probabilities(model, given)
    np.testing.assert_allclose(draws.mean(dim=0), want, atol=0.05)


def test_samples_need_possible_evidence():
    module = to_torch(special_circuits()["zeros"])
    with pytest.raises(ValueError, match="probability zero"):
        module.sample(3, [1, NAN, NAN, NAN, NAN])
    with pytest.raises(ValueError, match="one row, but has 2"):
        module.sample(3, np.full((2, 5), NAN))


@pytest.mark.parametrize("name", CIRCUITS)
def test_entropy_and_divergence_are_those_of_the_model(name):
    circuit = special_circuits()[name]
    module = to_torch(circuit, dtype=DOUBLE)
    assert module.entropy().item() == pytest.approx(strudel.entropy(circuit), rel=1e-9, abs=1e-12)
    other = to_torch(circuit, dtype=DOUBLE)
    with torch.no_grad():
        other.logits += torch.randn(other.logits.shape, generator=torch.Generator().manual_seed(0))
    want = strudel.kl_divergence(circuit, other.to_model())
    assert module.kl(other).item() == pytest.approx(want, rel=1e-9, abs=1e-12)


def random_cells(circuit, rng, n_rows=6):
    """Rows of cells, some unknown."""
    sizes = [column.n_cells for column in circuit.columns]
    cells = rng.integers(0, sizes, (n_rows, len(sizes))).astype(float)
    cells[rng.random(cells.shape) < 0.4] = NAN
    return cells


@given(column_circuits(max_columns=3), seeds)
@examples(25)
def test_tables_have_the_answers_of_all_states(circuit, seed):
    joint, module = joint_of(circuit), to_torch(circuit, dtype=DOUBLE)
    rng, most = np.random.default_rng(seed), max(joint.shape)
    cells = random_cells(circuit, rng)
    soft = rng.random((len(cells), joint.ndim, most))
    known = np.where(np.isnan(cells)[:, :, np.newaxis], 1.0, cells[:, :, np.newaxis] == range(most))
    for weights, found in (
        (known, module.log_prob(torch.tensor(cells))),
        (known * soft, module.log_prob(soft=torch.tensor(known * soft))),
    ):
        for row, log_p in zip(weights, found.detach().numpy(), strict=True):
            table = joint * outer(row, joint.shape)
            assert np.exp(log_p) == pytest.approx(table.sum(), rel=1e-9, abs=1e-14)
    marginals = module.marginals(torch.tensor(cells)).detach().numpy()
    for row, found in zip(known, marginals, strict=True):
        table = joint * outer(row, joint.shape)
        for place, size in enumerate(joint.shape):
            others = tuple(axis for axis in range(joint.ndim) if axis != place)
            want = table.sum(axis=others) / table.sum() if table.sum() else np.full(size, NAN)
            own = found[place, :size] if not circuit.columns.are_bits else found[place]
            want = want[1] if circuit.columns.are_bits else want
            assert own == pytest.approx(want, rel=1e-8, abs=1e-12, nan_ok=True)


def outer(weights, shape):
    """The product of weights of the cells of every column, for all states."""
    table = np.ones(())
    for own, size in zip(weights, shape, strict=True):
        table = np.multiply.outer(table, own[:size])
    return table


@given(vtrees(3), seeds)
@examples(25)
def test_deterministic_tables_have_best_states_entropies_and_divergences(vtree, seed):
    rng = random.Random(seed)
    columns = [category_column(f"x{place}", rng.randint(2, 4)) for place in range(vtree.n_vars)]
    circuit = deterministic_circuit(Columns(tuple(columns), "pandas"), vtree, rng)
    joint, module = joint_of(circuit), to_torch(circuit, dtype=DOUBLE)
    state, log_p = module.most_probable_state()
    assert joint[tuple(state[0].long().tolist())] == pytest.approx(joint.max())
    assert log_p.exp().item() == pytest.approx(joint.max())
    p = joint[joint > 0]
    assert module.entropy().item() == pytest.approx(-(p * np.log(p)).sum(), abs=1e-9)
    other = to_torch(circuit, dtype=DOUBLE)
    with torch.no_grad():
        other.logits += torch.randn(other.logits.shape, dtype=DOUBLE)
    q = joint_of(other.to_model())[joint > 0]
    assert module.kl(other).item() == pytest.approx((p * np.log(p / q)).sum(), abs=1e-9)
    draws = module.sample(2000, generator=torch.Generator().manual_seed(0)).long().numpy()
    share = np.zeros(joint.shape)
    np.add.at(share, tuple(draws.T), 1 / 2000)
    assert share == pytest.approx(joint, abs=0.06)


def small_model(kind):
    if kind == "mixture":
        return special_mixtures()["figure 1"]
    return figure_1_circuit()


@pytest.mark.parametrize("kind", ["circuit", "mixture"])
def test_gradients_are_those_of_finite_differences(kind):
    module = to_torch(small_model(kind), dtype=DOUBLE)
    rows = torch.tensor([[1.0, NAN, 0, NAN], [NAN, NAN, NAN, 1.0]], dtype=DOUBLE)
    names = [name for name, _ in module.named_parameters()]
    values = tuple(one.detach().clone().requires_grad_() for one in module.parameters())

    def with_parameters(query):
        def ask(*given):
            own = dict(zip(names, given, strict=True))
            return torch.func.functional_call(_Asking(module, query), _prefixed(own), ())

        return ask

    log_prob = with_parameters(lambda: module.log_prob(rows))
    assert torch.autograd.gradcheck(log_prob, values)
    assert torch.autograd.gradcheck(with_parameters(lambda: module.marginals(rows)), values)
    assert torch.autograd.gradgradcheck(log_prob, values)
    if kind == "circuit":
        assert torch.autograd.gradcheck(with_parameters(module.entropy), values)
        other = to_torch(small_model(kind), dtype=DOUBLE)
        assert torch.autograd.gradcheck(with_parameters(lambda: module.kl(other)), values)
        assert torch.autograd.gradcheck(with_parameters(lambda: other.kl(module)), values)
    soft = torch.rand(2, 4, 2, dtype=DOUBLE, requires_grad=True)
    assert torch.autograd.gradcheck(lambda given: module.log_prob(soft=given), (soft,))


class _Asking(torch.nn.Module):
    """A query as a module, so that its parameters can be given."""

    def __init__(self, module, query):
        super().__init__()
        self.module, self.query = module, query

    def forward(self):
        return self.query()


def _prefixed(own):
    return {f"module.{name}": value for name, value in own.items()}


@pytest.mark.parametrize("kind", ["circuit", "mixture"])
def test_parameters_may_differ_from_row_to_row(kind):
    model = small_model(kind)
    module = to_torch(model, dtype=DOUBLE)
    rows = torch.tensor([[1.0, NAN, 0, NAN], [NAN, 1, NAN, 1.0], [0, 0, 1, 1]], dtype=DOUBLE)
    generator = torch.Generator().manual_seed(0)
    shape = (3, *module.logits.shape)
    params = torch.randn(shape, dtype=DOUBLE, generator=generator, requires_grad=True)
    found = module.log_prob(rows, params=params)
    for i in range(3):
        other = to_torch(model, dtype=DOUBLE)
        other.logits.data.copy_(params[i].detach())
        assert found[i].item() == pytest.approx(other.log_prob(rows[i]).item(), rel=1e-10)
    assert torch.autograd.gradcheck(lambda own: module.log_prob(rows, params=own), params)
    if kind == "circuit":
        flat = module.log_prob(rows, params=params[:, :, 0])
        torch.testing.assert_close(flat, found)
        assert module.log_prob(params=params).abs().max() < 1e-10  # nothing is known


@pytest.mark.parametrize("name", CIRCUITS)
def test_parameters_come_back_to_a_circuit(name):
    circuit = special_circuits()[name]
    module = to_torch(circuit, dtype=DOUBLE)
    own = circuit_of(circuit)
    back = own.from_torch(module)
    for name in ("leaf_log_p", "edge_log_theta"):
        theta = np.exp(getattr(back, name))
        np.testing.assert_allclose(theta, np.exp(getattr(own, name)), rtol=1e-12, atol=1e-15)
    with torch.no_grad():
        module.logits += torch.randn(
            module.logits.shape, generator=torch.Generator().manual_seed(0)
        )
    rows = rows_of(circuit)
    back = own.from_torch(module)
    log_p = module.log_prob(rows).detach()
    np.testing.assert_allclose(
        log_probabilities(back, evidence_of(back.columns, rows)), log_p, rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("name", MIXTURES)
def test_parameters_come_back_to_a_mixture(name):
    mixture = special_mixtures()[name]
    module = to_torch(mixture, dtype=DOUBLE)
    back = circuit_of(mixture).from_torch(module)
    assert back.n_components == mixture.n_components
    rows = rows_of(mixture)
    log_p = strudel.log_marginal(mixture, rows)
    np.testing.assert_allclose(
        log_probabilities(back, evidence_of(back.columns, rows)), log_p, rtol=1e-10, atol=1e-12
    )


def test_a_fitted_estimator_goes_there_and_back():
    import pandas as pd

    rng = np.random.default_rng(0)
    size = rng.choice(["small", "large"], 300)
    price = np.where(size == "small", 1.0, 5.0) + rng.normal(0, 0.5, 300)
    table = pd.DataFrame({"size": size, "price": price, "sold": rng.integers(0, 2, 300)})
    model = strudel.Strudel(n_components=1, random_state=0).fit(table)
    module = to_torch(model, dtype=DOUBLE)
    some = pd.DataFrame({"size": ["small", None], "price": [1.2, None], "sold": [1, 0]})
    want = model.log_marginal(some)
    np.testing.assert_allclose(module.log_prob(some).detach(), want, rtol=1e-10)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    before = module.log_prob(table).mean().item()
    for _ in range(5):
        optimizer.zero_grad()
        loss = -module.log_prob(table).mean()
        loss.backward()
        optimizer.step()
    trained = model.from_torch(module)
    assert trained is not model
    after = trained.score(table)
    assert after == pytest.approx(module.log_prob(table).mean().item(), rel=1e-9)
    assert after > before
    assert trained.probability("size == 'small'") != model.probability("size == 'small'")
    assert np.isnan(trained.log_likelihoods_.train)


def test_a_constrained_model_keeps_its_rule():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (200, 5))
    X[:, 1] |= X[:, 0]
    model = strudel.Strudel(
        n_components=1, constraint="x0 -> x1", max_splits=5, random_state=0
    ).fit(X)
    module = to_torch(model, dtype=DOUBLE)
    rows = rng.integers(0, 2, (40, 5))
    want = strudel.log_likelihood(model, rows)
    assert np.isinf(want).any()
    np.testing.assert_allclose(module.log_prob(rows).detach(), want, rtol=1e-10)
    with torch.no_grad():
        module.logits += torch.randn(module.logits.shape, dtype=DOUBLE)
    assert module.log_prob([1, 0, NAN, NAN, NAN]).item() == -np.inf


def test_a_circuit_that_is_not_normalised_becomes_so():
    circuit = figure_1_circuit()
    module = to_torch(replace(circuit, log_total=1.5), dtype=DOUBLE)
    assert module.log_prob().item() == pytest.approx(0.0, abs=1e-12)
    rows = np.array([[1, 0, 1, 0], [1, 1, 0, 1]])
    difference = module.log_prob(rows).diff().item()
    assert difference == pytest.approx(np.diff(strudel.log_likelihood(circuit, rows))[0])


def test_a_state_dict_holds_the_parameters_and_nothing_else():
    module = to_torch(special_circuits()["learned 0"])
    state = module.state_dict()
    assert set(state) == {"logits", "weight_logits"}
    other = to_torch(special_circuits()["learned 0"])
    other.logits.data.zero_()
    other.load_state_dict(state)
    torch.testing.assert_close(other.logits, module.logits)
    torch.testing.assert_close(deepcopy(module).log_prob(), module.log_prob())


@pytest.mark.compiled
def test_it_can_be_compiled_as_one_graph():
    circuit = special_mixtures()["fair coins"]
    module = to_torch(circuit, dtype=DOUBLE)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    rows = torch.randint(0, 2, (6, circuit.vtree.n_vars)).double()
    log_p = compiled(rows)
    torch.testing.assert_close(log_p, module(rows))
    log_p.sum().backward()
    by_compiled = module.logits.grad.clone()
    module.zero_grad()
    module(rows).sum().backward()
    torch.testing.assert_close(by_compiled, module.logits.grad)


def test_wrong_shapes_are_refused():
    module = to_torch(figure_1_circuit())
    with pytest.raises(ValueError, match=r"x must be of shape \(n_rows, 4\)"):
        module.log_prob(torch.zeros(3, 5))
    with pytest.raises(ValueError, match=r"soft must be of shape \(n_rows, 4, 2\)"):
        module.log_prob(soft=torch.ones(3, 4))
    with pytest.raises(ValueError, match="instead of x"):
        module.log_prob(torch.zeros(3, 4), soft=torch.ones(3, 4, 2))
    with pytest.raises(ValueError, match=r"params must be of shape \(3, "):
        module.log_prob(torch.zeros(3, 4), params=torch.zeros(3, 2))
