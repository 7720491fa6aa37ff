"""Faults of the system: a full disk, too little memory, no home, closed streams, many processes."""

import gc
import os
import subprocess
import sys
import textwrap
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from sklearn.base import clone

import strudel
from campaign.files import same_model
from makers import rows_of_kinds
from strategies import mixed
from strudel import EM, Strudel, log_marginal
from strudel.circuits import figure_1_circuit
from strudel.cli.main import main

resource = pytest.importorskip("resource")


@pytest.fixture
def full_disk():
    """No file grows beyond so many bytes; the system refuses to write them."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def allow(n_bytes):
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, limits[1]))

    yield allow
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


WRITERS = {
    "a.strudel": lambda model, path: strudel.save(model, path),
    "a.psdd": lambda model, path: strudel.write(model, path),
    "a.vtree.gz": lambda model, path: strudel.write(model.vtree, path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_at_any_byte_leaves_the_old_file_and_nothing_else(tmp_path, full_disk, name):
    path = tmp_path / name
    WRITERS[name](figure_1_circuit(), path)
    whole = path.read_bytes()
    for n_bytes in np.linspace(0, 0.8 * len(whole), 15).astype(int).tolist():
        full_disk(n_bytes)
        with pytest.raises(OSError, match="File too large"):
            WRITERS[name](figure_1_circuit().with_names(tuple("abcd")), path)
        full_disk(resource.RLIM_INFINITY)
        assert path.read_bytes() == whole
        assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_does_not_end_a_fit(tmp_path, full_disk):
    full_disk(50)
    model = Strudel(n_components=1, random_state=0, max_splits=2)
    with pytest.warns(RuntimeWarning, match="could not be written .*: File too large"):
        model.fit(rows_of_kinds(), save_to=tmp_path / "m.strudel")
    full_disk(resource.RLIM_INFINITY)
    assert list(tmp_path.iterdir()) == []
    assert len(model.history_) == 3


LITTLE_MEMORY = """
import resource, sys
import strudel, numpy
from strudel.circuits import figure_1_circuit
pages = int(open("/proc/self/statm").read().split()[0])
most = pages * resource.getpagesize() + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (most, most))
try:
    model = strudel.load(sys.argv[1])
    print(model.vtree.n_vars)
except (MemoryError, strudel.FileFormatError, ImportError, OSError) as error:
    print(type(error).__name__)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
@pytest.mark.parametrize("n_bytes", [0, 10**6, 10**7])
def test_too_little_memory_is_an_error_and_no_crash(tmp_path, n_bytes):
    path = tmp_path / "a.strudel"
    strudel.save(mixed([figure_1_circuit()] * 50_000), path)
    command = [sys.executable, "-c", LITTLE_MEMORY, path, str(n_bytes)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("4", "MemoryError", "FileFormatError", "ImportError", "OSError")


ALLOCATORS = ("empty", "zeros", "ones", "full", "concatenate", "stack", "append", "unique")


@contextmanager
def memory_for(n_arrays):
    """Let so many arrays be made by our code, and then one fail; counts those that were made."""
    made = [0]

    def limited(function):
        def allocate(*args, **options):
            if sys._getframe(1).f_globals.get("__name__", "").startswith("strudel."):
                made[0] += 1
                if made[0] == n_arrays:
                    raise MemoryError
            return function(*args, **options)

        return allocate

    with pytest.MonkeyPatch.context() as patch:
        for name in ALLOCATORS:
            patch.setattr(np, name, limited(getattr(np, name)))
        yield made


FIT = Strudel(n_components=2, max_splits=1, method=EM(max_iter=3), random_state=0)


@pytest.mark.compiled
def test_an_allocation_that_fails_anywhere_in_a_fit_leaves_nothing_torn(tmp_path, monkeypatch):
    X, Y = rows_of_kinds(seed=1, n_rows=30, n_vars=4), rows_of_kinds(n_rows=40, n_vars=4)
    before, wanted = clone(FIT).fit(X), clone(FIT).fit(Y)
    path = tmp_path / "fit.strudel"
    monkeypatch.setattr("strudel.learning.progress.SECONDS", 0.0)
    with memory_for(0) as made:
        clone(FIT).fit(Y, save_to=path)
    assert made[0] > 50
    path.unlink()
    for n_arrays in np.linspace(1, made[0], 6).astype(int).tolist():
        model = clone(FIT).fit(X)
        with memory_for(n_arrays), suppress(MemoryError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(Y, save_to=path)
        state = before if same_model(model, before) else wanted
        assert same_model(model, state)
        np.testing.assert_array_equal(model.history_.train, state.history_.train)
        gc.collect()  # what was not written is removed
        assert {file.name for file in tmp_path.iterdir()} <= {"fit.strudel"}
        if path.exists():
            strudel.load(path)
            path.unlink()


@pytest.mark.parametrize("fails_at", ["split", "save"])
def test_too_little_memory_for_a_fit_is_one_sentence(tmp_path, monkeypatch, capsys, fails_at):
    def fail(*_, **__):
        raise MemoryError

    places = {"split": "strudel.learning.growing.growing_circuit.GrowingCircuit.split"}
    monkeypatch.setattr(places.get(fails_at, "strudel.io.archive.zlib.compress"), fail)
    rows = "\n".join(",".join(map(str, row)) for row in rows_of_kinds(n_rows=30, n_vars=4))
    (tmp_path / "rows.csv").write_text(rows)
    out = tmp_path / "m.strudel"
    out.write_bytes(b"old")
    assert (
        main(["fit", "--components", "1", str(tmp_path / "rows.csv"), "-o", str(out), "--quiet"])
        == 2
    )
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "not enough memory" in said
    assert out.read_bytes() == b"old"
    gc.collect()
    assert {file.name for file in tmp_path.iterdir()} <= {"rows.csv", "m.strudel"}


def command(arguments, folder, **more):
    return subprocess.run(
        [sys.executable, "-m", "strudel", *map(str, arguments)],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        **({"stdout": subprocess.PIPE} | more),
    )


@pytest.fixture
def model(tmp_path):
    strudel.save(figure_1_circuit(), tmp_path / "m.strudel")
    return tmp_path / "m.strudel"


@pytest.mark.parametrize("home", ["/nonexistent", "/proc"])
def test_a_home_that_is_missing_or_read_only_does_not_matter(model, home):
    own = {name: value for name, value in os.environ.items() if not name.startswith("XDG")}
    done = command(["query", model, "marginal"], model.parent, env=own | {"HOME": home})
    assert (done.returncode, done.stderr) == (0, "")
    assert "X1" in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux")
def test_a_stdout_that_is_full_or_closed_is_one_line(model):
    with open("/dev/full", "w") as full:
        done = command(["info", model], model.parent, stdout=full)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    shell = f"{sys.executable} -m strudel info {model} >&-"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_threads_share_a_model():
    circuit = figure_1_circuit()
    rows = np.random.default_rng(0).choice([0.0, 1.0, np.nan], size=(50, 4))
    alone = log_marginal(circuit, rows)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: log_marginal(circuit, rows), range(32)))
    assert all(np.array_equal(one, alone) for one in found)


PROCESSES = """
import multiprocessing, sys
import numpy as np
from joblib import Parallel, delayed
from strudel import Strudel, log_marginal
from strudel.circuits import figure_1_circuit

def ask(_):
    return log_marginal(figure_1_circuit(), [[1, np.nan, 0, 1]])[0]

def fit(seed):
    X = np.random.default_rng(0).integers(0, 2, size=(60, 4))
    return Strudel(random_state=0, max_splits=2).fit(X).circuit_.edge_log_theta.tolist()

if __name__ == "__main__":
    answer, parameters = ask(0), fit(0)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(ask, range(4)) == [answer] * 4
        assert pool.map(fit, range(2)) == [parameters] * 2
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(ask, range(2)) == [answer] * 2
    assert Parallel(n_jobs=2)(delayed(ask)(k) for k in range(4)) == [answer] * 4
    print("the same")
"""


@pytest.mark.compiled
def test_processes_however_they_begin_give_the_same(tmp_path):
    script = tmp_path / "ask.py"
    script.write_text(textwrap.dedent(PROCESSES))
    own = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=own)
    assert (done.returncode, done.stdout) == (0, "the same\n"), done.stderr
