"""The lines about differences from the paper."""

from reproduce.sections.explain import explain


def test_only_what_differs_is_explained_and_what_is_better_shares_a_line():
    pairs = [
        ("nltcs", -6.0, -6.01),
        ("bbc", -262.0, -258.96),
        ("ad", -18.0, -16.52),
        ("plants", -13.0, -13.72),
        ("dna", -80.0, -87.1),
    ]
    bbc, ad, better = explain("table:single-models", pairs)
    assert bbc.startswith("**bbc** is 1.2 % worse")
    assert "patience" in bbc
    assert ad.endswith("not explained.")
    assert better == "**Better than the paper's**: plants 5.2 %, dna 8.2 %."
    (ensembles,) = explain("table:ensembles", [("plants (EM)", -13.0, -13.22)])
    assert ensembles.startswith("**Better than the paper's**: plants (EM) 1.7 %. Components start")


def test_nothing_is_said_where_all_agree():
    assert explain("table:single-models", [("nltcs", -6.06, -6.06)]) == []
