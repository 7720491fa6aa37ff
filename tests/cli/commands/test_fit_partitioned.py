"""Facts about `strudel fit` on partitioned tables, with and without workers."""

import json
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

from partitioned_tables import people
from strudel.cli import cluster
from strudel.cli.commands import fit
from strudel.cli.commands.fit import default_output
from strudel.cli.fit_tables import read_tables
from strudel.io.model_file import load
from strudel.queries.likelihood import log_likelihood
from strudel.queries.marginal import log_marginal
from strudel.queries.model import model_of

pytest.importorskip("dask")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

NAMES = ("coffee", "tea", "milk", "sugar", "cake")
OPTIONS = ("--max-splits", 8, "--seed", 0)


def write_parquet(folder, rows, n_files, names=NAMES):
    folder.mkdir()
    for number, part in enumerate(np.array_split(rows, n_files)):
        pd.DataFrame(part, columns=list(names)).to_parquet(folder / f"part.{number}.parquet")
    return folder


def write_zarr(path, rows):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(path, shape=rows.shape, chunks=(50, 2), dtype=rows.dtype)
    array[...] = rows
    return path


@pytest.fixture
def visits(tmp_path, rows):
    """More than ten files, of which part.10 comes after part.2."""
    return write_parquet(tmp_path / "visits", rows, 11)


def fit_json(run, *arguments):
    code, out, err = run("fit", "--components", 1, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def assert_same_model(path, other):
    one, two = load(path), load(other)
    held, expected = one.circuit_, two.circuit_
    for name in ("node_vtree", "node_edges", "edge_left", "edge_right", "edge_log_theta"):
        assert np.array_equal(getattr(held, name), getattr(expected, name)), name
    assert np.array_equal(one.history_.valid, two.history_.valid)
    return one


@pytest.fixture
def plain(run, table, unseen, tmp_path):
    """The model of the same rows in one file, without Dask, and its report."""
    path = tmp_path / "plain.strudel"
    return path, fit_json(run, table, "--valid", unseen, "--test", unseen, "-o", path, *OPTIONS)


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["glob", "folder", "zarr"])
def test_parts_give_the_model_of_one_file(run, visits, rows, unseen, plain, tmp_path, kind):
    data = {
        "glob": lambda: f"{visits}/*.parquet",
        "folder": lambda: visits,
        "zarr": lambda: write_zarr(tmp_path / "visits.zarr", rows),
    }[kind]()
    path = tmp_path / "out.strudel"
    report = fit_json(run, data, "--valid", unseen, "--test", unseen, "-o", path, *OPTIONS)
    model = assert_same_model(path, plain[0])
    assert model.circuit_.feature_names == (None if kind == "zarr" else NAMES)
    assert report["n_rows"] == {"train": 120, "valid": 40, "test": 40}
    for part in ("train", "valid", "test"):
        assert report["log_likelihood"][part] == pytest.approx(plain[1]["log_likelihood"][part])
    assert run("info", path)[0] == 0


@pytest.mark.compiled
def test_validation_and_test_rows_may_be_lazy_with_columns_in_another_order(
    run, table, unseen_rows, plain, tmp_path
):
    turned = write_parquet(tmp_path / "turned", unseen_rows[:, ::-1], 3, NAMES[::-1])
    path = tmp_path / "out.strudel"
    report = fit_json(run, table, "--valid", turned, "--test", turned, "-o", path, *OPTIONS)
    assert_same_model(path, plain[0])
    assert report["n_rows"] == {"train": 120, "valid": 40, "test": 40}
    expected = plain[1]["log_likelihood"]["test"]
    assert report["log_likelihood"]["test"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.compiled
def test_the_search_on_a_sample_reports_the_scores_of_all_rows(
    run, visits, rows, unseen, unseen_rows, tmp_path
):
    for name, data in (("parts", visits), ("memory", tmp_path / "all.npy")):
        np.save(tmp_path / "all.npy", rows)
        path = tmp_path / f"{name}.strudel"
        more = ("--set", "search.structure_rows=60", "--valid", unseen)
        report = fit_json(run, data, "-o", path, *OPTIONS, *more)
        model = load(path)
        assert model.search.structure_rows == 60
        for part, X in (("train", rows), ("valid", unseen_rows)):
            mean = float(log_likelihood(model.circuit_, X).mean())
            assert report["log_likelihood"][part] == pytest.approx(mean, rel=1e-12)


@pytest.mark.compiled
def test_a_mixture_of_parts_scores_as_reported(run, visits, rows, unseen, unseen_rows, tmp_path):
    path = tmp_path / "out.strudel"
    options = ("--components", 2, "--max-splits", 2, "--valid", unseen, "-o", path)
    report = fit_json(run, visits, *options)
    mixture = load(path).circuit_
    assert mixture.n_components == 2
    for part, X in (("train", rows), ("valid", unseen_rows)):
        mean = float(log_likelihood(mixture, X).mean())
        assert report["log_likelihood"][part] == pytest.approx(mean, rel=1e-9)
    code, out, err = run("fit", "--components", 1, visits, *options)
    assert (code, err) == (0, "")
    assert "held" not in out
    assert "2 components on a 2-split structure, as asked" in out


@pytest.mark.compiled
def test_test_rows_in_parts_may_have_gaps(run, visits, unseen_rows, tmp_path):
    X = unseen_rows.astype(float)
    X[3, 2] = X[30, 0] = np.nan
    gaps = write_parquet(tmp_path / "gaps", X, 3)
    path = tmp_path / "out.strudel"
    report = fit_json(run, visits, "--test", gaps, "-o", path, *OPTIONS)
    mean = float(log_marginal(load(path).circuit_, X).mean())
    assert report["log_likelihood"]["test"] == pytest.approx(mean)


@pytest.mark.compiled
@pytest.mark.parametrize("options", [OPTIONS, ("--components", 2, "--max-splits", 2, "--seed", 0)])
def test_rows_to_learn_from_may_have_gaps(run, rows, tmp_path, options):
    X = rows.astype(float)
    X[::4, 2] = X[1::5, 0] = np.nan
    gaps = write_parquet(tmp_path / "gaps", X, 3)
    path = tmp_path / "out.strudel"
    report = fit_json(run, gaps, "-o", path, *options)
    assert set(report["log_likelihood"]) == {"train", "valid"}
    assert report["n_rows"]["train"] == len(rows)
    found = fit_json(run, gaps, "--valid", gaps, "-o", path, *options)["log_likelihood"]
    mean = float(log_marginal(model_of(load(path)), X).mean())
    assert found == pytest.approx({"train": mean, "valid": mean})
    complete = write_parquet(tmp_path / "complete", rows, 2)
    report = fit_json(run, complete, "--valid", gaps, "-o", path, *options)
    for part, values in (("train", rows), ("valid", X)):
        mean = float(log_marginal(model_of(load(path)), values).mean())
        assert report["log_likelihood"][part] == pytest.approx(mean), part


@pytest.mark.compiled
def test_what_other_packages_tell_programmers_is_not_said(run, rows, tmp_path):
    (tmp_path / "plain").mkdir()
    frame = pd.DataFrame(rows, columns=list(NAMES))
    frame.to_parquet(tmp_path / "plain" / "part.0.parquet", index=False)  # Dask makes an index
    code, _, err = run(
        "fit", "--components", 1, tmp_path / "plain", "-o", tmp_path / "out.strudel", *OPTIONS
    )
    assert (code, err) == (0, "")


@pytest.mark.compiled
def test_a_model_outlives_rows_that_cannot_be_scored(run, visits, unseen_rows, tmp_path):
    bad = write_parquet(tmp_path / "bad", unseen_rows + 7, 2)
    path = tmp_path / "out.strudel"
    code, out, err = run("fit", "--components", 1, visits, "--test", bad, "-o", path, *OPTIONS)
    assert (code, out, err.count("\n")) == (2, "", 2)
    assert f"wrote {path}, but could not score" in err
    assert "only 0" in err
    assert load(path).circuit_.feature_names == NAMES
    assert not path.with_name("out.strudel.part").exists()


@pytest.mark.compiled
@pytest.mark.parametrize("late", ["count_rows", "close"])
def test_a_model_outlives_a_late_interrupt(run, visits, tmp_path, monkeypatch, late):
    def interrupt(*_):
        raise KeyboardInterrupt

    @contextmanager
    def workers_that_do_not_close(*_):
        yield 0
        interrupt()

    if late == "close":
        monkeypatch.setattr(fit, "use_workers", workers_that_do_not_close)
    else:
        monkeypatch.setattr(fit, late, interrupt)
    path = tmp_path / "out.strudel"
    assert run("fit", "--components", 1, visits, "-o", path, *OPTIONS)[0] != 0
    assert load(path).circuit_.feature_names == NAMES
    assert not path.with_name("out.strudel.part").exists()


def write_people(folder, n_rows, seed):
    """In two parts, in one parquet file, and as csv."""
    folder.mkdir()
    (folder / "parts").mkdir()
    frame = people(n_rows, seed)
    for number, half in enumerate((frame[: n_rows // 2], frame[n_rows // 2 :])):
        half.to_parquet(folder / "parts" / f"{number}.parquet")
    frame.to_parquet(folder / "one.parquet")
    frame.to_csv(folder / "one.csv", index=False)
    return folder


def test_any_columns_in_parts_meet_rows_in_one_file(run, tmp_path):
    data, valid = (write_people(tmp_path / str(n), n, n) for n in (200, 60))
    path, other = tmp_path / "out.strudel", tmp_path / "other.strudel"
    options = ("--components", "1", "--max-splits", 3)
    wanted = fit_json(run, data / "parts", "--valid", valid / "parts", "-o", other, *options)
    for one, two in (("parts", "one.csv"), ("parts", "one.parquet"), ("one.parquet", "parts")):
        report = fit_json(run, data / one, "--valid", valid / two, "-o", path, *options)
        assert report["n_rows"] == {"train": 200, "valid": 60}
        assert report["log_likelihood"] == wanted["log_likelihood"]
        assert_same_model(path, other)
    code, out, err = run(
        "fit", "--components", 1, data / "one.csv", "--valid", valid / "parts", *options
    )
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "save it as parquet" in err
    report = fit_json(run, data / "one.csv", "--test", valid / "parts", "-o", path, *options)
    assert report["n_rows"] == {"train": 200, "test": 60}


def test_files_in_inner_folders_are_never_left_out_unasked(run, visits, rows, tmp_path):
    path = tmp_path / "out.strudel"
    inner = visits / "inner"
    write_parquet(inner, rows, 1)
    code, out, err = run("fit", "--components", 1, visits, "-o", path, *OPTIONS)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "'inner/part.0.parquet'" in err
    for pattern, n_rows in (("*.parquet", 120), ("**/*.parquet", 240)):
        assert f"{visits}/{pattern}" in err
        report = fit_json(run, f"{visits}/{pattern}", "-o", path, *OPTIONS)
        assert report["n_rows"]["train"] == n_rows
    inner.rename(visits / "year=2024")
    code, out, err = run("fit", "--components", 1, f"{visits}/**/*.parquet", "-o", path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "part.0.parquet has 'year'" in err


def test_where_rows_came_from_is_kept(run, visits, tmp_path):
    path = tmp_path / "out.strudel"
    assert run(
        "fit", "--components", 1, f"{visits}/*.parquet", "-o", path, "--max-splits", 0, "-q"
    ) == (0, "", "")
    assert "visits/*.parquet" in run("info", path)[1]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("visits/*.parquet", "visits"),
        ("visits/year=*/*.parquet", "visits"),
        ("*.parquet", "model"),
        ("visits.zarr", "visits"),
    ],
)
def test_a_model_is_named_after_the_folder(data, name):
    assert str(default_output(data)) == f"{name}.strudel"


def test_wrong_parts_are_refused_in_one_line(run, visits, rows, tmp_path):
    def refused(*arguments):
        code, out, err = run("fit", "--components", 1, *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        return err

    assert "no file matches" in refused(tmp_path / "*.parquet")
    (tmp_path / "empty").mkdir()
    assert "holds no .parquet files" in refused(tmp_path / "empty")
    (tmp_path / "a.csv").write_text("a,b\n0,1\n")
    assert "also matches" in refused(tmp_path / "*.csv")
    assert "one file" in refused(visits, "--target", "tea")
    assert "--set search.structure_rows" in refused(
        visits, "--search", "best_first", "--set", "smoothing=hierarchical"
    )
    assert "needs the method em or bagged_em" in refused(
        visits, "--components", 2, "--method", "boosting"
    )
    assert "a constraint needs all rows" in refused(visits, "--constraint", "tea | milk").lower()
    pd.DataFrame(rows[:, :4], columns=NAMES[:4]).to_parquet(visits / "part.11.parquet")
    assert "part.0.parquet has 'cake' and part.11.parquet does not" in refused(visits)
    (visits / "part.11.parquet").write_bytes(b"PAR1 nothing")
    assert "damaged" in refused(visits)


def test_wrong_zarr_folders_are_refused_in_one_line(run, rows, tmp_path):
    zarr = pytest.importorskip("zarr")
    write_zarr(tmp_path / "line.zarr", rows)
    zarr.create_array(tmp_path / "cube.zarr", shape=(2, 2, 2), dtype="uint8")
    zarr.open_group(tmp_path / "group.zarr", mode="w").create_array(
        "inner", shape=(2, 2), dtype="uint8"
    )
    (tmp_path / "empty.zarr").mkdir()
    for name, words in (("cube", "(2, 2, 2)"), ("group", "inner"), ("empty", "not a zarr")):
        code, out, err = run("fit", "--components", 1, tmp_path / f"{name}.zarr")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert words in err


def test_without_dask_there_is_advice(run, visits, table, monkeypatch):
    for module in ("dask", "dask.array", "dask.utils", "dask.dataframe", "distributed"):
        monkeypatch.setitem(sys.modules, module, None)
    for arguments in ((visits,), (table, "--workers", 2)):
        code, out, err = run("fit", "--components", 1, *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "pip install 'strudel-pc[dask]'" in err


@pytest.mark.compiled
def test_a_scheduler_that_does_not_answer_is_one_line(run, table, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "SECONDS_TO_ANSWER", 0.5)
    for address in ("tcp://127.0.0.1:9", "nonsense://here:1"):
        code, out, err = run("fit", "--components", 1, table, "--scheduler", address)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"no Dask scheduler answers at '{address}'" in err
    code, _, err = run(
        "fit", "--components", 1, table, "--scheduler", "tcp://127.0.0.1:9", "--workers", 2
    )
    assert code == 2
    assert "leave out one" in err


@pytest.mark.compiled
def test_two_workers_learn_the_same_circuit(run, visits, unseen, plain, tmp_path):
    distributed = pytest.importorskip("distributed")
    path = tmp_path / "out.strudel"
    arguments = ("--valid", unseen, "-o", path, *OPTIONS, "--quiet")
    assert run("fit", "--components", 1, visits, "--workers", 2, *arguments) == (0, "", "")
    assert_same_model(path, plain[0])
    with pytest.raises(ValueError, match="No"):
        distributed.get_client()


def listening():
    """Ports where this process, or one that it started, waits for others; and those processes."""
    psutil = pytest.importorskip("psutil")
    me = psutil.Process()
    family = {me, *me.children(recursive=True)}
    ports = {
        (process.pid, *connection.laddr)
        for process in family
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    }
    return ports, family


@pytest.mark.compiled
def test_workers_are_out_of_reach_of_others(
    run, visits, unseen, tmp_path, monkeypatch, hostile_folder
):
    distributed = pytest.importorskip("distributed")
    seen = []

    def read_and_look_around(*arguments, **options):
        client = distributed.get_client()
        ports, family = listening()
        seen.append((client.scheduler.address[:9], sum(client.nthreads().values()), ports, family))
        return read_tables(*arguments, **options)

    monkeypatch.setattr(fit, "read_tables", read_and_look_around)
    before = listening()
    arguments = ("--valid", unseen, "-o", tmp_path / "out.strudel", *OPTIONS)
    code, _, err = run("fit", "--components", 1, visits, "--workers", 2, *arguments)
    assert (code, "dashboard" in err) == (0, False)
    assert seen == [("inproc://", 2, *before)]  # an address that other processes cannot use
    assert not hostile_folder.exists()


@pytest.mark.compiled
def test_a_scheduler_is_used_and_left_running(run, table, unseen, plain, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    path = tmp_path / "out.strudel"
    arguments = ("--valid", unseen, "-o", path, *OPTIONS, "--json")
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            protocol="tcp://",
            dashboard_address=":0",
        ) as workers,
        distributed.Client(workers, set_as_default=False) as client,
    ):
        code, _, err = run(
            "fit", "--components", 1, table, "--scheduler", workers.scheduler_address, *arguments
        )
        assert (code, err) == (0, f"dashboard: {workers.dashboard_link}\n")
        assert_same_model(path, plain[0])
        assert len(client.nthreads()) == 1

        monkeypatch.setattr(cluster, "SECONDS_TO_ANSWER", 0.5)
        workers.scale(0)
        while client.nthreads():
            time.sleep(0.01)
        code, _, err = run(
            "fit", "--components", 1, table, "--scheduler", workers.scheduler_address, *arguments
        )
        assert (code, err.count("\n")) == (2, 1)
        assert "has no workers" in err


@pytest.mark.compiled
@pytest.mark.parametrize("data", ["", "/*.parquet"], ids=["folder", "glob"])
def test_other_commands_point_to_python(run, visits, plain, data):
    code, _, err = run("query", plain[0], "marginal", "--given", f"{visits}{data}")
    assert code == 2
    assert "only strudel fit, score, predict and impute accept" in err
    assert "Dask" in err
