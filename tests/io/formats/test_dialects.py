"""Dialects and traps of the formats, each in a few lines written by hand."""

import math

import numpy as np
import pytest

import oracle
from strudel import FileFormatError, read, write
from strudel.errors import NormalizedWarning
from strudel.trees.vtree import Vtree, linear_vtree

HALF = math.log(0.5)


@pytest.fixture
def read_text(tmp_path):
    def read_text(name, text, **options):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return read(tmp_path / name, **options)

    return read_text


@pytest.fixture
def refuses(read_text):
    """Reading fails, with the name of the file, the line (None for no line) and some words."""

    def refuses(name, text, line, words, **options):
        with pytest.raises(FileFormatError, match=words) as caught:
            read_text(name, text, **options)
        place = f"{name}: " if line is None else f"{name}, line {line}: "
        assert place in str(caught.value)
        assert "\n" not in str(caught.value)

    return refuses


PSDD = f"""c a comment
psdd 4
L 10 0 1
L 11 0 -1
cc another
T 4 2 2 {math.log(0.25)}
T 7 2 2 {math.log(0.5)}
c
D 3 1 2 10 4 {math.log(0.1)} 11 7 {math.log(0.9)}
"""
WANTED = [0.9 * 0.5, 0.9 * 0.5, 0.1 * 0.75, 0.1 * 0.25]  # rows 00, 01, 10, 11


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace(" ", " \t ") + "   \n\n",
        lambda text: text.replace("psdd 4", "psdd 9999"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\nL", "\nl").replace("\nD", "\nd"),
        lambda text: text.replace("L 10 0", "L 10 99").replace("D 3 1", "D 3 0"),
        lambda text: text.replace("D 3", "L 90 0 1\nL 91 2 -2\nD 3"),  # not used
    ],
)
def test_psdd_as_found_in_the_wild(read_text, change):
    circuit = read_text("a.psdd", change(PSDD))
    assert oracle.probabilities(circuit) == pytest.approx(WANTED)
    assert circuit.vtree == linear_vtree(2)


def test_psdd_with_two_probabilities_on_a_true_line(read_text):
    text = PSDD.replace(f"2 {math.log(0.25)}", f"2 {math.log(0.75)} {math.log(0.25)}")
    assert oracle.probabilities(read_text("a.psdd", text)) == pytest.approx(WANTED)


@pytest.mark.parametrize("word", ["-Infinity", "-inf", "-Inf", "-INF"])
def test_psdd_with_impossible_elements(read_text, word):
    text = PSDD.replace(str(math.log(0.1)), word).replace(str(math.log(0.9)), "0")
    assert oracle.probabilities(read_text("a.psdd", text)) == pytest.approx([0.5, 0.5, 0, 0])


def test_psdd_whose_children_are_places_among_the_lines(read_text):
    text = PSDD.replace("10 4", "0 2").replace("11 7", "1 3")
    assert oracle.probabilities(read_text("a.psdd", text)) == pytest.approx(WANTED)


def test_psdd_with_sides_swapped_in_one_element(read_text):
    text = PSDD.replace("11 7", "7 11")
    circuit = read_text("a.psdd", text)
    assert oracle.probabilities(circuit) == pytest.approx(WANTED)


def test_psdd_on_a_vtree_that_is_given(read_text, refuses):
    mirrored = Vtree.from_nested((1, 0))
    circuit = read_text("a.psdd", PSDD, vtree=mirrored)
    assert circuit.vtree == mirrored
    assert oracle.probabilities(circuit) == pytest.approx(WANTED)
    refuses("a.psdd", PSDD, 9, "no normal form", vtree=linear_vtree(3))


def test_psdd_of_one_variable(read_text):
    for literal, wanted in (("1", [0.0, 1.0]), ("-1", [1.0, 0.0])):
        circuit = read_text("a.psdd", f"psdd 1\nL 0 0 {literal}\n")
        assert oracle.probabilities(circuit) == wanted
    circuit = read_text("a.psdd", f"psdd 1\nT 0 0 1 {math.log(0.25)}\n")
    assert oracle.probabilities(circuit) == pytest.approx([0.75, 0.25])


def test_psdd_that_does_not_add_up(read_text, refuses):
    text = PSDD.replace(str(math.log(0.9)), str(math.log(0.8)))
    refuses("a.psdd", text, 9, "add up to 0.9, not to 1")
    with pytest.warns(NormalizedWarning, match="of 1 of 3 sums did not add up to 1"):
        circuit = read_text("a.psdd", text, normalize=True)
    wanted = [0.8 * 0.5, 0.8 * 0.5, 0.1 * 0.75, 0.1 * 0.25]
    assert oracle.probabilities(circuit) == pytest.approx([p / 0.9 for p in wanted])
    nothing = PSDD.replace(str(math.log(0.9)), "-inf").replace(str(math.log(0.1)), "-inf")
    with pytest.warns(NormalizedWarning):
        refuses("a.psdd", nothing, None, "every row is impossible", normalize=True)
    with pytest.warns(NormalizedWarning):
        refuses("a.psdd", PSDD.replace(str(math.log(0.9)), "1e9"), 9, "add up to", normalize=True)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("psdd 4", "vtree 4", None, "does not start with a line 'psdd"),
        ("psdd 4", "psdd x", 2, "whole number, but is 'x'"),
        ("L 11 0 -1", "L 11 0 0", 4, "not 0"),
        ("L 11 0 -1", "L 10 0 -1", 4, "id 10 is used for two nodes"),
        ("L 11 0 -1", "Q 11 0 -1", 4, "a line should be"),
        ("D 3 1 2", "D 3 1 3", 9, "3 elements should have 9 words, but there are 6"),
        ("10 4", "12 4", 9, "child 12 is not the id of an earlier node"),
        ("10 4", "10 10", 9, "no normal form: two factors"),
        ("T 4 2 2", "T 4 2 3", 9, "does not mention variable [23]"),
        (str(math.log(0.1)), "nan", 9, "should be a number, but is 'nan'"),
        (str(math.log(0.1)), "x" * 99, 9, r"should be a number, but is 'x{40}\.\.\.'"),
    ],
)
def test_psdd_that_is_refused(refuses, old, new, line, words):
    assert PSDD.count(old) == 1
    refuses("a.psdd", PSDD.replace(old, new), line, words)


def test_psdd_that_splits_in_two_ways_is_refused(refuses):
    coins = "".join(f"T {v} 0 {v + 1} {HALF}\n" for v in range(4))
    text = (
        f"psdd 9\n{coins}D 4 0 1 0 1 0\nD 5 0 1 2 3 0\nD 6 0 1 0 2 0\nD 7 0 1 1 3 0\n"
        f"D 8 0 2 4 5 {HALF} 6 7 {HALF}\n"
    )
    refuses("a.psdd", text, 10, "no common vtree")


def test_psdd_cut_short_is_refused(refuses):
    text = f"psdd 9\nT 0 0 1 {HALF}\nT 1 0 2 {HALF}\nT 2 0 3 {HALF}\nD 3 0 1 1 2 0\n"
    refuses("a.psdd", text, None, "9 nodes were announced, but there are 4")
    text = text.replace("psdd 9", "psdd 4")
    refuses("a.psdd", text, 5, "mentions variable 3 but not variable 1")


JPC = f"""c a circuit of ProbabilisticCircuits.jl 0.3
jpc 10
L 0 0 1
L 1 0 -1
L 2 0 2
L 3 0 3
L 4 0 -3
P 5 0 3 0 2 3
P 6 0 3 4 1 2
S 7 0 2 5 {math.log(0.4)} 6 {math.log(0.6)}
S 8 0 1 7 0.0
P 9 0 1 8
"""


def test_jpc_with_wide_products_and_sums_of_sums(read_text):
    circuit = read_text("a.jpc", JPC)
    assert len(circuit.columns) == 3
    wanted = dict.fromkeys(oracle.all_rows(3), 0.0) | {(1, 1, 1): 0.4, (0, 1, 0): 0.6}
    assert dict(
        zip(oracle.all_rows(3), oracle.probabilities(circuit), strict=True)
    ) == pytest.approx(wanted)


def test_jpc_with_the_inputs_of_version_0_4(read_text):
    text = (
        "jpc 6\n"
        f"I 0 0 1 1\nC 1 0 2 {math.log(0.3)} {math.log(0.7)}\nB 2 0 3 1 {math.log(0.2)}\n"
        f"I 3 0 1 false\nP 4 0 3 0 1 2\nS 5 0 1 4 0.0\n"
    )
    circuit = read_text("a.jpc", text)
    assert oracle.probability(circuit, (1, 1, 0)) == pytest.approx(0.7 * 0.8)
    assert oracle.probability(circuit, (0, 1, 0)) == 0.0


def test_jpc_with_categories(read_text, tmp_path):
    logs = [math.log(p) for p in (0.2, 0.3, 0.5)]
    text = f"jpc 3\nC 0 0 1 {logs[0]} {logs[1]} {logs[2]}\nI 1 0 2 1\nP 2 0 2 0 1\n"
    circuit = read_text("a.jpc", text)
    assert [column.values for column in circuit.columns] == [(0, 1, 2), (0, 1)]
    assert oracle.probability(circuit, (2, 1)) == pytest.approx(0.5)
    write(circuit, tmp_path / "b.jpc")
    assert oracle.probability(read(tmp_path / "b.jpc"), (1, 1)) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("jpc 10", "jpc 11", 2, "11 nodes were announced, but there are 10"),
        ("jpc 10", "psdd 10", None, "does not start with a line 'jpc"),
        ("L 4 0 -3", "I 4 0 3 2", 7, "values 0 and 1 here, not '2'"),
        ("L 4 0 -3", "C 4 0 3 -1", 7, "at least two values, but this one has 1"),
        ("L 4 0 -3", "B 4 0 3 5 -1", 7, "one trial"),
        ("P 5 0 3 0 2 3", "P 5 0 4 0 2 3", 8, "4 children should have 4 words, but there are 3"),
        ("P 5 0 3 0 2 3", "P 5 0 0", 8, "a line should be"),
    ],
)
def test_jpc_that_is_refused(refuses, old, new, line, words):
    assert JPC.count(old) == 1
    refuses("a.jpc", JPC.replace(old, new), line, words)


def test_a_pickle_is_never_opened(refuses, tmp_path):
    import pickle

    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    refuses("a.jpc", pickle.dumps([Bomb()]), None, "Python pickle")
    assert not (tmp_path / "exploded").exists()


SPN = f"""(2 2)
v 0 1
v 0 0
v 1 1
v 1 0
* 0 2
* 3 1
+ 4 {math.log(0.25)} 5 {math.log(0.75)}
EOF
"""


def test_spn_of_juice(read_text):
    assert oracle.probabilities(read_text("a.spn", SPN)) == pytest.approx([0.75, 0, 0, 0.25])


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("(2 2)", "(2 3)", 1, "two values here, not '3'"),
        ("(2 2)", "1 + 2 0.5 3 0.5", 1, "RPCircuits"),
        ("EOF", "", None, "EOF"),
        ("v 1 0", "v 2 0", 5, "from 0 to 1"),
        ("* 3 1", "* 3 3", None, "share"),
    ],
)
def test_spn_that_is_refused(refuses, old, new, line, words):
    text = SPN.replace(old, new)
    refuses("a.spn", text, line if words != "share" else 7, words)


def test_cnf_over_several_lines(read_text):
    text = "c x\np cnf 3 3\n1 -2\n 0 2 3 0\nc weights 1 0\n-1 0\n%\n0\n"
    assert read_text("a.cnf", text).to_literals() == [[1, -2], [2, 3], [-1]]


def test_dnf_may_call_itself_cnf(read_text):
    formula = read_text("a.dnf", "p cnf 2 1\n1 2 0\n")
    assert formula.holds([[1, 1], [1, 0]]).tolist() == [True, False]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, "does not start with a line 'p cnf"),
        ("p cnf 1 1\n2 0\n", 2, "literal 2 is not of the variables 1 to 1"),
        ("p cnf 2 2\n1 0\n", 1, "2 clauses were announced, but there are 1"),
        ("p cnf 2 1\n1 2\n", 2, "not closed by 0"),
        ("p cnf -2 1\n", 1, "cannot have -2 variables"),
    ],
)
def test_cnf_that_is_refused(refuses, text, line, words):
    refuses("a.cnf", text, line, words)


NNF = "nnf 7 6 3\nL 1\nL -1\nL 2\nA 2 0 2\nA 0\nA 2 1 4\nO 1 2 3 5\n"


def test_nnf_of_c2d(read_text):
    nnf = read_text("a.nnf", NNF)
    wanted = [row[0] == 0 or row[1] == 1 for row in oracle.all_rows(3)]
    assert nnf.holds(oracle.all_rows(3)).tolist() == wanted
    assert nnf.node_decision[-1] == 0


D4 = "o 1 0\na 2 0\nt 3 0\n1 2 1 0\n1 3 -1 -2 0\n2 3 2 0\n2 3 3 0\n"


def test_nnf_of_d4(read_text):
    wanted = [
        (row[0] and row[1] and row[2]) or (not row[0] and not row[1]) for row in oracle.all_rows(3)
    ]
    found = read_text("a.nnf", D4).holds(oracle.all_rows(3))
    assert found.tolist() == list(map(bool, wanted))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, "empty"),
        ("x 1\n", 1, "it should start with"),
        (NNF.replace("nnf 7", "nnf 8"), 1, "8 nodes were announced, but there are 7"),
        (NNF.replace("6 3", "6 1"), 4, "from 1 to 1"),
        (NNF.replace("A 2 0 2", "A 3 0 2"), 5, "3 children should have 3 words, but there are 2"),
        (NNF.replace("O 1", "O 4"), 8, "variable 4"),
        (D4 + "3 1 0\n", 3, "a constant has no children|below itself"),
        (D4.replace("2 3 3 0", "2 1 3 0"), 1, "node 1 is below itself"),
        (D4.replace("o 1 0", "o 9 0"), 4, "no node 1"),
    ],
)
def test_nnf_that_is_refused(refuses, text, line, words):
    try:
        refuses("a.nnf", text, line, words)
    except AssertionError:
        refuses("a.nnf", text, 1, words)  # a circle may be met at any of its nodes


def test_jlc(read_text, refuses):
    text = "jlc 5\nL 3 0 -2\nL 1 0 1\nF 2\nA 7 0 2 3 1\nO 8 4 2 7 2\n"
    nnf = read_text("a.jlc", text)
    assert nnf.holds(oracle.all_rows(2)).tolist() == [False, False, True, False]
    more = text.replace("O 8", "L 9 0 -1\nO 8")  # not used, and so not counted by Juice
    assert read_text("a.jlc", more).n_nodes == 6
    refuses(
        "a.jlc", text.replace("O 8 4 2 7 2\n", ""), 1, "5 nodes were announced, but there are 4"
    )
    refuses(
        "a.jlc",
        text.replace("O 8 4 2", "O 8 4 3"),
        6,
        "3 children should have 3 words, but there are 2",
    )
    refuses("a.jlc", text.replace("7 0 2 3 1", "7 0 2 3 9"), 5, "child '9'")


SDD = "sdd 7\nL 0 0 1\nL 1 0 -1\nL 2 2 2\nL 3 2 -2\nF 5\nT 6\nD 4 1 2 0 2 1 5\n"


def test_sdd_ids_may_be_of_any_kind(read_text, tmp_path):
    vtree_text = "vtree 5\nL 8 3\nL 7 1\nL 6 2\nI 5 7 6\nI 4 5 8\n"
    (tmp_path / "ids.vtree").write_text(vtree_text)
    for text in (SDD, SDD.replace("D 4 1", "D 4 5"), SDD.replace("D 4 1", "D 4 99")):
        for vtree in (tmp_path / "ids.vtree", Vtree.from_nested(((0, 1), 2))):
            sdd = read_text("a.sdd", text, vtree=vtree)
            assert sdd.vtree.to_nested() in (((0, 1), 2), ((0, 1), 2))
            assert sdd.holds(oracle.all_rows(3)).tolist() == [False] * 6 + [True] * 2


def test_sdd_takes_the_vtree_beside_it_or_recovers_one(read_text, tmp_path):
    assert read_text("a.sdd", SDD).vtree.to_nested() == (0, 1)
    (tmp_path / "a.vtree").write_text("vtree 5\nL 0 1\nL 2 2\nI 1 0 2\nL 4 3\nI 3 1 4\n")
    assert read_text("a.sdd", SDD).n_vars == 3


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("sdd 1\nT 0\n", 2, "its vtree is needed"),
        ("sdd 1\nL 0 0 2\n", 2, "its vtree is needed"),
        (SDD.replace("D 4 1 2", "D 4 1 3"), 8, "should have 6 words, but there are 4"),
        (SDD.replace("L 2 2 2", "L 2 2 1"), 8, "share variable 1"),
    ],
)
def test_sdd_that_is_refused(refuses, text, line, words):
    refuses("a.sdd", text, line, words)


def test_sdd_that_does_not_follow_its_vtree_is_refused(refuses):
    refuses("a.sdd", SDD, 8, "does not follow", vtree=Vtree.from_nested((1, 0)))
    refuses("a.sdd", SDD, 4, "variable 2 is not in the vtree", vtree=linear_vtree(1))


GLC = """Regression Circuit
T 0 0 1 1.5
F 1 0 1 -1
T 2 1 2 10
F 3 1 2 20
D 4 2 3 (0 2 100) (0 3 200) (1 2 300)
B 1000
"""


@pytest.mark.parametrize("title", ["Logisitic Circuit", "Logistic Circuit", "Regression Circuit"])
def test_predictors(read_text, title):
    text = GLC.replace("Regression Circuit", title)
    for name in ("a.glc", "a.circuit"):
        predictor = read_text(name, text.replace("\n", "\r\n").replace(" (0 3", "  ( 0 3"))
        assert predictor.kind == ("regression" if title.startswith("R") else "logistic")
        found = predictor.evaluate(oracle.all_rows(2)).ravel().tolist()
        # rows 00 (no edge), 01, 10, 11
        assert found == [1000, 1000 + 300 - 1 + 10, 1000 + 200 + 1.5 + 20, 1000 + 100 + 1.5 + 10]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("Regression Circuit", "Circuit", 1, "it should start with"),
        ("B 1000", "", None, "does not end with a line 'B"),
        ("B 1000", "B 1000\nT 9 0 3 1", 8, "should be the last"),
        ("D 4 2 3 (0 2 100) (0 3 200) (1 2 300)\n", "", None, "the root, should be a decision"),
        ("B 1000", "B 1000 1", 7, "should be 1 weights as before, but there are 2"),
        ("T 2 1 2 10", "T 2 1 2 inf", 4, "finite"),
        ("T 2 1 2 10", "T 2 1 1 10", 4, "a second line"),
        ("(0 3 200)", "(0 3)", 6, "should have 9 words, but there are 8"),
        ("(0 3 200)", "(3 0 200)", 6, "by one vtree"),
    ],
)
def test_predictors_that_are_refused(refuses, old, new, line, words):
    assert GLC.count(old) == 1
    refuses("a.glc", GLC.replace(old, new), line, words)


def test_a_predictor_on_another_vtree_is_refused(refuses):
    refuses("a.glc", GLC, 6, "does not follow the given vtree", vtree=Vtree.from_nested((1, 0)))


CLT = "3\n1\n2 0.5\n1 2 0.9 0.2\n3 1 0.4 0.7\n"


def test_chow_liu_trees(read_text):
    tree = read_text("a.clt", CLT)
    assert tree.var_parent.tolist() == [1, -1, 0]
    assert np.array_equal(tree.var_theta, [[0.2, 0.9], [0.5, 0.5], [0.7, 0.4]])


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, "on two lines"),
        ("3 1\n", 1, "number of variables"),
        ("999999999999\n1\n1 0.5\n", None, "but there are 1 lines"),
        (CLT.replace("1 2 0.9", "2 2 0.9"), 4, "variable 2 has two lines"),
        (CLT.replace("1 2 0.9", "1 3 0.9"), None, "cycle"),
        (CLT.replace("0.9", "1.9"), 4, "between 0 and 1, but this one is 1.9"),
        (CLT.replace("2 0.5", "2 0.5 0.5"), 3, "should be 'root p"),
    ],
)
def test_chow_liu_trees_that_are_refused(refuses, text, line, words):
    refuses("a.clt", text, line, words)


VTREE = "vtree 5\nL 9 2\nL 4 1\nI 7 9 4\nL 0 3\nI 2 7 0\n"


def test_vtree_ids_are_labels(read_text):
    assert read_text("a.vtree", VTREE).to_nested() == ((1, 0), 2)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("vtree 5", "tree", None, "does not start with a line 'vtree"),
        ("L 9 2", "L 9 0", 2, "numbered from 1"),
        ("L 9 2", "L 9 1", 6, "each once"),
        ("L 4 1", "L 9 1", 3, "id 9 is used for two nodes"),
        ("I 7 9 4", "I 7 9 9", 6, "exactly one node"),
        ("I 2 7 0\n", "", 5, "odd number of nodes"),
    ],
)
def test_vtree_that_is_refused(refuses, old, new, line, words):
    assert VTREE.count(old) == 1
    refuses("a.vtree", VTREE.replace(old, new), line, words)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.psdd", f"psdd 3\nT 0 0 3 {HALF}\nT 1 0 1 {HALF}\nT 2 2 2 {HALF}\nD 3 1 1 1 2 0\n"),
        ("a.jpc", f"jpc 4\nL 9 4 3\nL 0 0 1\nL 1 0 -1\nS 2 0 2 0 {HALF} 1 {HALF}\n"),
        ("a.sdd", "sdd 3\nL 0 0 1\nL 1 0 -3\nL 2 0 -1\n"),
        ("a.glc", "Logistic Circuit\nT 9 4 3 1\nT 0 0 1 1\nT 1 2 2 1\nD 2 1 1 (0 1 1)\nB 1\n"),
    ],
)
def test_a_root_that_is_about_fewer_variables_than_the_file(read_text, name, text):
    with pytest.raises(FileFormatError, match="variable 3"):
        read_text(name, text)


def test_names_for_another_number_of_variables(refuses):
    refuses("a.psdd", 'c feature_names ["a"]\n' + PSDD, None, "1 feature names for 2 variables")
