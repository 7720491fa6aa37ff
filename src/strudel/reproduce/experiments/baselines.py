"""Simple densities for 0/1 rows, from scikit-learn and from a Chow-Liu tree.

In:  training, validation and test rows.
Out: mean log-likelihoods. What has to be chosen is chosen on the validation rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from strudel.circuits.compile import compile_chow_liu
from strudel.data.datasets import Dataset
from strudel.queries.likelihood import log_likelihood
from strudel.reproduce.experiments.measures import mean_scores
from strudel.trees.chow_liu import learn_chow_liu_tree
from strudel.trees.vtree import vtree_from_chow_liu

N_CLUSTERS = (5, 20, 80)
SMOOTHING = (0.01, 0.1, 1.0)


def independent(data: Dataset, seed: int) -> dict[str, Any]:
    """All variables independent: scikit-learn's naive Bayes with a single class."""
    from sklearn.naive_bayes import BernoulliNB

    model = BernoulliNB().fit(data.train, np.zeros(len(data.train)))
    return mean_scores(lambda rows: model.predict_joint_log_proba(rows)[:, 0], data)


def chow_liu(data: Dataset, seed: int) -> dict[str, Any]:
    """The best tree-shaped network, as the circuit that the search starts from."""
    tree = learn_chow_liu_tree(data.train)
    circuit = compile_chow_liu(tree, vtree_from_chow_liu(tree))
    return mean_scores(lambda rows: log_likelihood(circuit, rows), data)


def clusters(data: Dataset, seed: int) -> dict[str, Any]:
    """A mixture of independent variables: clusters of k-means as classes of naive Bayes.

    The joint probability of class and row, summed over the classes, is a density of rows.
    """
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.naive_bayes import BernoulliNB

    tried = []
    for k in N_CLUSTERS:
        label = MiniBatchKMeans(k, n_init=1, random_state=seed).fit_predict(data.train)
        for alpha in SMOOTHING:
            model = BernoulliNB(alpha=alpha).fit(data.train, label)
            scores = mean_scores(
                lambda rows, model=model: logsumexp(model.predict_joint_log_proba(rows), axis=1),
                data,
            )
            tried.append(scores | {"clusters": k, "smoothing": alpha})
    return max(tried, key=lambda one: float(one["valid"]))
