"""Facts about `strudel score`, `predict` and `impute` on partitioned tables."""

import json

import numpy as np
import pytest

from partitioned_tables import people
from strudel.cli.partitions import list_partitions
from strudel.errors import UnseenValueWarning
from strudel.io.model_file import load
from strudel.queries.likelihood import log_likelihood
from strudel.queries.marginal import log_marginal

pytest.importorskip("dask")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

NAMES = ["coffee", "tea", "milk", "sugar", "cake"]


def write_parts(folder, frame, n_files):
    """More than ten files, of which part.10 comes after part.2."""
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        frame.iloc[rows].to_parquet(folder / f"part.{number}.parquet")
    return folder


def write_zarr(path, rows, n_rows_of_a_block=7):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(
        path, shape=rows.shape, chunks=(n_rows_of_a_block, 2), dtype=rows.dtype
    )
    array[...] = rows
    return path


def score_json(run, *arguments):
    code, out, err = run("score", *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def read_in_order(folder, n_partitions):
    files = sorted(folder.iterdir())  # as most readers take them
    assert len(files) == n_partitions
    return pd.concat(map(pd.read_parquet, files))


@pytest.fixture
def visits(tmp_path, unseen_rows):
    """Columns in another order than those of the model."""
    frame = pd.DataFrame(unseen_rows, columns=NAMES)[NAMES[::-1]]
    return write_parts(tmp_path / "visits", frame, 11)


def test_files_are_scored_as_one_table(run, model, visits, unseen_rows, tmp_path):
    values = log_likelihood(load(model).circuit_, unseen_rows)
    report = score_json(run, model, visits, "-o", tmp_path / "values")
    assert report["log_likelihood"] == pytest.approx(values.mean(), rel=1e-12)
    assert (report["n_rows"], report["n_impossible"], report["n_incomplete"]) == (40, 0, 0)
    written = read_in_order(tmp_path / "values", 11)
    assert written["row"].tolist() == list(range(40))
    assert np.array_equal(written["log_likelihood"], values)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["values", "visits"]
    assert score_json(run, model, f"{visits}/*.parquet")["log_likelihood"] == pytest.approx(
        report["log_likelihood"]
    )


def test_unknown_values_in_parts_are_summed_out(run, model, unseen_rows, tmp_path):
    rows = unseen_rows.astype(float)
    rows[::3, 1] = np.nan
    zarr = write_zarr(tmp_path / "visits.zarr", rows)
    report = score_json(run, model, zarr)
    expected = log_marginal(load(model).circuit_, rows).mean()
    assert report["log_likelihood"] == pytest.approx(expected, rel=1e-12)
    assert report["n_incomplete"] == 14
    folder = write_parts(tmp_path / "visits", pd.DataFrame(rows, columns=NAMES), 3)
    assert score_json(run, model, folder)["log_likelihood"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.compiled
def test_workers_score_the_same_rows(run, model, unseen_rows, tmp_path):
    pytest.importorskip("distributed")
    zarr = write_zarr(tmp_path / "visits.zarr", unseen_rows)
    report = score_json(run, model, zarr, "--workers", 2, "-o", tmp_path / "values.parquet")
    values = log_likelihood(load(model).circuit_, unseen_rows)
    assert report["log_likelihood"] == pytest.approx(values.mean(), rel=1e-12)
    written = read_in_order(tmp_path / "values.parquet", 2)  # of 21 and 19 rows
    assert np.array_equal(written["log_likelihood"], values)


def test_blocks_of_zarr_are_not_cut(tmp_path, unseen_rows):
    zarr = write_zarr(tmp_path / "visits.zarr", unseen_rows)
    for n_workers, sizes in ((0, [(0, 40)]), (3, [(0, 14), (14, 14), (28, 12)])):
        parts = list_partitions(str(zarr), n_workers)
        assert [(part.first, part.n_rows) for part in parts] == sizes


def test_files_without_rows_are_passed_over(run, model, visits, tmp_path):
    mean = score_json(run, model, visits)["log_likelihood"]
    part = pd.read_parquet(visits / "part.3.parquet")
    part.iloc[:0].to_parquet(visits / "part.2a.parquet")
    assert score_json(run, model, visits)["log_likelihood"] == mean
    empty = write_parts(tmp_path / "empty", part.iloc[:0], 1)
    assert run("score", model, empty)[::2] == (2, f"strudel: {empty} has no rows.\n")


def test_columns_that_are_not_the_models_are_noted_once(run, model, unseen_rows, tmp_path):
    frame = pd.DataFrame(unseen_rows, columns=NAMES).assign(sunny=1)
    visits = write_parts(tmp_path / "visits", frame, 3)
    code, _, err = run("score", model, visits)
    assert (code, err.count("\n"), err.count("'sunny', which")) == (0, 1, 1)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """The model of a frame of any types, and the frame."""
    from strudel.cli.main import main

    folder = tmp_path_factory.mktemp("classifier")
    frame = people(120)
    frame.to_csv(folder / "people.csv", index=False)
    path = folder / "smoker.strudel"
    options = ("--target", "smoker", "--components", "1", "--max-splits", 0, "--quiet")
    assert main(["fit", str(folder / "people.csv"), "-o", str(path), *options]) == 0
    return path


@pytest.mark.compiled
def test_classes_in_parts_are_predicted_as_in_one_table(run, classifier, tmp_path):
    frame = people(50, seed=1)
    frame.loc[::5, "weight"] = np.nan
    frame.to_parquet(tmp_path / "all.parquet")
    parts = write_parts(tmp_path / "parts", frame, 11)
    code, out, err = run("predict", classifier, tmp_path / "all.parquet", "--json")
    assert code == 0, err
    wanted = json.loads(out)
    code, out, err = run("predict", classifier, parts, "-o", tmp_path / "found", "--json")
    assert code == 0, err
    report = json.loads(out)
    assert report["n_rows"] == report["n_scored"] == 50
    for name in ("accuracy", "log_loss"):
        assert report[name] == pytest.approx(wanted[name], rel=1e-12)
    found = read_in_order(tmp_path / "found", 11)
    assert list(found) == list(wanted["predictions"])
    for name, column in wanted["predictions"].items():
        assert found[name].tolist() == (pytest.approx(column) if "P(" in name else column)
    code, _, err = run("predict", classifier, parts, "-o", tmp_path / "again")
    assert code == 0
    assert f"accuracy {wanted['accuracy']:.4f}" in err
    assert "wrote 50 predictions" in err


def test_an_encoded_model_scores_frames_in_parts(run, tmp_path):
    frame = people(80)
    frame.to_parquet(tmp_path / "all.parquet")
    path = tmp_path / "people.strudel"
    options = ("--components", "1", "--max-splits", 3, "--quiet")
    assert run("fit", tmp_path / "all.parquet", "-o", path, *options)[0] == 0
    parts = write_parts(tmp_path / "parts", frame, 4)
    whole = score_json(run, path, tmp_path / "all.parquet")
    assert score_json(run, path, parts)["log_likelihood"] == pytest.approx(
        whole["log_likelihood"], rel=1e-12
    )
    other = frame.assign(colour="mauve").iloc[:3]
    other.to_parquet(parts / "part.9.parquet")
    with pytest.warns(UnseenValueWarning, match="'mauve' of column 'colour'"):
        assert run("score", path, parts)[0] == 0


def test_arrays_without_names_are_scored_by_models_of_arrays(run, unseen_rows, tmp_path):
    np.save(tmp_path / "rows.npy", unseen_rows)
    path = tmp_path / "rows.strudel"
    options = ("--components", "1", "--max-splits", 3, "--quiet")
    assert run("fit", tmp_path / "rows.npy", "-o", path, *options)[0] == 0
    whole = score_json(run, path, tmp_path / "rows.npy")
    zarr = write_zarr(tmp_path / "rows.parquet", unseen_rows)  # whatever its ending
    assert score_json(run, path, zarr)["log_likelihood"] == pytest.approx(whole["log_likelihood"])


def test_an_index_is_no_column(run, model, unseen_rows, tmp_path):
    frame = pd.DataFrame(unseen_rows, columns=NAMES)
    frame.index = np.random.default_rng(0).permutation(len(frame)) + 7
    visits = write_parts(tmp_path / "visits", frame, 3)
    whole = tmp_path / "all.parquet"
    frame.rename_axis("id").to_parquet(whole)
    frame.iloc[:0].to_parquet(visits / "part.9.parquet", index=False)
    expected = log_likelihood(load(model).circuit_, unseen_rows).mean()
    for data in (visits, whole):
        assert score_json(run, model, data)["log_likelihood"] == pytest.approx(expected)


def test_hidden_files_are_not_looked_at(run, model, visits):
    mean = score_json(run, model, visits)["log_likelihood"]
    (visits / "._part.0.parquet").write_bytes(b"of another system")
    (visits / ".old").mkdir()
    (visits / ".old" / "part.0.parquet").write_bytes(b"nothing")
    assert score_json(run, model, visits)["log_likelihood"] == mean


def test_columns_in_names_of_folders_are_refused(run, model, visits, tmp_path):
    (tmp_path / "by_year").mkdir()
    visits.rename(tmp_path / "by_year" / "year=2024")
    code, _, err = run("score", model, tmp_path / "by_year" / "*" / "*.parquet")
    assert (code, err.count("\n")) == (2, 1)
    assert "'year' is only in the names of folders" in err


def test_what_is_noted_of_every_part_is_said_once_each(run, tmp_path):
    frame = people(90)
    path = tmp_path / "people.strudel"
    frame.to_parquet(tmp_path / "all.parquet")
    options = ("--components", "1", "--max-splits", 1, "--quiet")
    assert run("fit", tmp_path / "all.parquet", "-o", path, *options)[0] == 0
    frame.loc[70:, "weight"] = np.inf
    parts = write_parts(tmp_path / "parts", frame.assign(shoe=42), 3)
    code, _, err = run("score", path, parts)
    assert code == 0
    assert err.count("\n") == 2
    assert "has 'shoe', which the model does not know and ignores." in err
    assert "infinite in 20 of 30 rows" in err


def test_wrong_options_are_refused_before_the_work(
    run, model, classifier, visits, unseen, unseen_rows, tmp_path
):
    def refused(*arguments):
        before = sorted(tmp_path.iterdir())
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert sorted(tmp_path.iterdir()) == before
        return err

    assert "exists" in refused("score", model, visits, "-o", visits)
    assert "leave out the ending" in refused("score", model, visits, "-o", tmp_path / "a.csv")
    assert "go with a partitioned table" in refused("score", model, unseen, "--workers", 2)
    assert "leave out one" in refused(
        "score", model, visits, "--workers", 1, "--scheduler", "tcp://localhost:1"
    )
    assert "give -o FOLDER" in refused("predict", classifier, visits)
    assert "no file, folder or pattern" in refused("score", model, "a.zarr", "--workers", 2)
    assert "the folder of the input" in refused("score", model, visits, "-o", visits / "values")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    assert "exists" in refused("score", model, visits, "-o", tmp_path / "nowhere")
    assert "not a classifier" in refused("predict", model, visits, "-o", tmp_path / "new")
    assert "give -o FOLDER" in refused("impute", model, visits)
    assert "only strudel fit, score, predict and impute" in refused(
        "query", model, "map", "--given", f"{visits}/*.parquet"
    )
    narrow = pd.DataFrame(unseen_rows[:, :4], columns=NAMES[:4])
    narrow.to_parquet(visits / "part.11.parquet")
    assert "part.11.parquet does not" in refused("score", model, visits)
    narrow.assign(cake=2).to_parquet(visits / "part.11.parquet")
    assert "part.11.parquet: " in refused("score", model, visits, "-o", tmp_path / "values")


def with_gaps(rows):
    """Gaps in some rows, of which the first ten have none."""
    rows = rows.astype(float)
    rows[10::3, 1] = np.nan
    rows[12::4, 3:] = np.nan
    return rows


def impute_whole(run, model, data, *options):
    code, out, err = run("impute", model, data, *options, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize("strategy", ["map", "mean"])
def test_gaps_in_parts_are_filled_as_in_one_table(run, model, unseen_rows, tmp_path, strategy):
    frame = pd.DataFrame(with_gaps(unseen_rows), columns=NAMES)
    frame.to_parquet(tmp_path / "all.parquet")
    parts = write_parts(tmp_path / "parts", frame, 11)
    wanted = impute_whole(run, model, tmp_path / "all.parquet", "--strategy", strategy)
    code, out, err = run(
        "impute", model, parts, "--strategy", strategy, "-o", tmp_path / "full", "--json"
    )
    assert code == 0, err
    report = json.loads(out)
    assert (report["n_rows"], report["n_filled"]) == (40, wanted["n_filled"])
    files = [pd.read_parquet(file) for file in sorted((tmp_path / "full").iterdir())]
    assert len(files) == 11
    assert {dtype.kind for file in files for dtype in file.dtypes} == {
        "i" if strategy == "map" else "f"  # also in partitions without a gap
    }
    found = pd.concat(files)
    for name in NAMES:
        assert found[name].tolist() == pytest.approx(wanted["columns"][name])


@pytest.mark.compiled
def test_workers_draw_what_one_process_draws(run, model, unseen_rows, tmp_path):
    pytest.importorskip("distributed")
    rows = np.tile(with_gaps(unseen_rows), (3, 1))
    parts = write_parts(tmp_path / "parts", pd.DataFrame(rows, columns=NAMES), 3)
    options = ("--strategy", "sample", "--seed", 3)
    drawn = {}
    for name, more in (("here", ()), ("there", ("--workers", 2)), ("other", ("--seed", 4))):
        code, _, err = run("impute", model, parts, *options, *more, "-o", tmp_path / name)
        assert code == 0, err
        assert f"filled {np.isnan(rows).sum()} gaps in 120 rows" in err
        drawn[name] = read_in_order(tmp_path / name, 3)[NAMES].to_numpy()
    assert np.array_equal(drawn["here"], drawn["there"])
    assert not np.array_equal(drawn["here"], drawn["other"])
    known = ~np.isnan(rows)
    assert np.array_equal(drawn["here"][known], rows[known])
    assert set(np.unique(drawn["here"])) == {0, 1}
    assert not np.array_equal(drawn["here"][:40], drawn["here"][40:80])  # draws of their own


@pytest.mark.compiled
def test_draws_for_arrays_do_not_depend_on_the_workers(run, model, unseen_rows, tmp_path):
    pytest.importorskip("distributed")
    zarr = write_zarr(tmp_path / "visits.zarr", with_gaps(unseen_rows))
    drawn = []
    for name, workers in (("here", ()), ("there", ("--workers", 2))):
        options = ("--strategy", "sample", *workers, "-o", tmp_path / name)
        assert run("impute", model, zarr, *options)[0] == 0
        drawn.append(read_in_order(tmp_path / name, 1).to_numpy())
    assert np.array_equal(*drawn)


def test_filled_parts_have_the_same_types(run, tmp_path):
    """Whatever pandas makes of columns with gaps, and if nothing at all is known."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"bit": rng.integers(0, 2, 60), "age": rng.integers(0, 9, 60)})
    frame["colour"] = rng.choice(["red", "blue"], 60)
    frame["nothing"] = np.nan
    frame.to_parquet(tmp_path / "all.parquet")
    path = tmp_path / "table.strudel"
    options = ("--components", "1", "--max-splits", 2, "--quiet")
    assert run("fit", tmp_path / "all.parquet", "-o", path, *options)[0] == 0
    parts = tmp_path / "parts"
    parts.mkdir()
    frame.to_parquet(parts / "0.parquet")
    some = frame.astype({"bit": float, "age": float})
    some.loc[::2, ["bit", "age"]] = np.nan
    some.to_parquet(parts / "1.parquet")
    none = some.assign(bit=np.nan, age=np.nan, colour=None)
    none.to_parquet(parts / "2.parquet")
    for strategy in ("map", "mean", "sample"):
        output = tmp_path / strategy
        code, _, err = run("impute", path, parts, "--strategy", strategy, "-o", output)
        assert code == 0, err
        files = [pd.read_parquet(file) for file in sorted(output.iterdir())]
        for name in ("bit", "age", "colour"):
            assert len({file[name].dtype for file in files}) == 1, (strategy, name)
            assert not any(file[name].isna().any() for file in files)


@pytest.mark.parametrize("strategy", ["map", "mean", "sample"])
def test_frames_and_classes_in_parts_are_filled(run, classifier, tmp_path, strategy):
    frame = people(50, seed=1)
    hidden = frame.astype({"weight": float, "smoker": "boolean"})
    hidden.loc[20::4, "weight"] = np.nan
    hidden.loc[21::4, "smoker"] = None
    hidden.to_parquet(tmp_path / "all.parquet")
    parts = write_parts(tmp_path / "parts", hidden, 4)
    for data, output in ((tmp_path / "all.parquet", tmp_path / "1.parquet"), (parts, "full")):
        code, _, err = run(
            "impute", classifier, data, "--strategy", strategy, "-o", tmp_path / output
        )
        assert code == 0, err
        assert f"filled {hidden.isna().sum().sum()} gaps in 50 rows" in err
    found = read_in_order(tmp_path / "full", 4).reset_index(drop=True)
    assert not found.isna().any(axis=None)
    for name in frame:
        known = hidden[name].notna()
        assert found[name][known].tolist() == hidden[name][known].tolist()
    if strategy != "sample":
        whole = pd.read_parquet(tmp_path / "1.parquet")
        pd.testing.assert_frame_equal(found, whole, check_dtype=False)
