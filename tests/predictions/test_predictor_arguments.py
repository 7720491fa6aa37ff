"""Facts about `predictor_arguments`."""

from sklearn.tree import DecisionTreeRegressor

from strudel.predictions.predictor_arguments import form_of_predictor


def test_an_example_of_form_of_predictor():
    tree = DecisionTreeRegressor().fit([[0, 0], [0, 1], [1, 0], [1, 1]], [1, 1, 5, 7])
    form = form_of_predictor(tree, n_vars=2)
    assert form.leaf_value.ravel().tolist() == [1.0, 5.0, 7.0]
