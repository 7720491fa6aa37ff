"""`strudel plot`: a picture of a model, or of what it says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from strudel.cli import files
from strudel.cli.console import (
    InputError,
    JsonOption,
    option,
    print_json,
    say,
    warnings_as_notes,
)

DOT = ".dot"


class Picture(NamedTuple):
    """In how many inches it is drawn, which options belong to it, and whether Graphviz can."""

    size: tuple[float, float]
    takes: tuple[str, ...] = ()
    has_dot: bool = False


PICTURES = {
    "circuit": Picture((10.0, 6.0), ("--row",), has_dot=True),
    "vtree": Picture((10.0, 5.0), has_dot=True),
    "tree": Picture((8.0, 6.5), has_dot=True),
    "curve": Picture((7.0, 4.2)),
    "marginals": Picture((7.0, 5.5), ("--given", "--top")),
    "components": Picture((8.0, 5.0)),
    "dependencies": Picture((7.0, 6.0), ("--given",)),
    "posterior": Picture((7.0, 4.2), ("--given", "--variables")),
    "correlations": Picture((7.0, 6.0), ("--given",)),
}


def plot(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A .strudel file, or one of another program: .psdd .vtree .clt ...",
        ),
    ],
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="WHAT",
            help="One of the pictures above; circuit by default, and marginals for a table.",
            autocompletion=files.complete_from(PICTURES),
        ),
    ] = None,
    output: Annotated[
        Path | None,
        option("A .png, .svg, .pdf or .dot file; MODEL-WHAT.png by default.", None, *files.OUTPUT),
    ] = None,
    given: files.GivenOption = None,
    variables: Annotated[str | None, option("posterior: of this column of numbers.", "X")] = None,
    row: Annotated[
        str | None,
        option("circuit: mark this row in red; its rest is most probable.", "X=1,Y=0,...|TABLE"),
    ] = None,
    top: Annotated[int | None, option("marginals: at most so many bars.", min=1)] = None,
    dark: Annotated[bool, option("Light on dark.", None, "--dark")] = False,
    size: Annotated[
        tuple[float, float] | None, option("Width and height in inches, such as 12 8.", "W H")
    ] = None,
    force: files.ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Draw a model, or what it says.

    \b
    circuit       sums, products and parameters; for a large one an overview, its vtree with a disc
                  on every node for the edges there. With --row, its edges in red
    vtree         how the circuit divides the variables, or the columns of a table
    tree          which of them go together: the Chow-Liu tree closest to the model
    curve         how learning went
    marginals     the probability of 1 of each variable; with --given, what that changes
    components    the weights of the components, and the marginals of each
    dependencies  the correlation of every two variables; for columns, the mutual information
    posterior     the density of a column of numbers, named by --variables
    correlations  of all columns that have an order

    A .vtree file is drawn as a vtree and a .clt file as a tree by default. A .dot file is for
    Graphviz: circuit, vtree or tree.
    """  # noqa: D301
    from strudel.plotting.circuits import size_of_nodes

    what = None if what is None else files.read_meant(what, PICTURES)
    file = None if files.is_of_others(model) else files.read_held(model, force)
    held = files.read_any(model) if file is None else file.model
    what = what or ("circuit" if row is not None else _default_picture(held))
    picture = PICTURES[what]
    asked = {"--given": given, "--variables": variables, "--row": row, "--top": top}
    for name, value in asked.items():
        if value is not None and name not in picture.takes:
            owners = " and ".join(key for key, one in PICTURES.items() if name in one.takes)
            raise InputError(f"{name} goes with {owners}, not with {what}.")
    path = output or Path(f"{Path(model.name.removesuffix('.gz')).stem}-{what}.png")
    check_picture(path, f"a picture of {what}", "-o", *([DOT] if picture.has_dot else []))
    files.check_output(path, "the picture", (model, given, row), path.suffix)
    if size is not None and not all(1.0 <= inches <= 100.0 for inches in size):
        raise InputError(f"--size must be from 1 1 to 100 100 inches, but is {size}.")
    with warnings_as_notes():  # such as letters that a font lacks
        thing = _thing_to_draw(held, None if file is None else file.history, what, str(model))
        values: dict[str, Any] = {
            "given": None if given is None else _one(thing, given, "--given"),
            "row": None if row is None else _completed(thing, row),
            "top": top,
            "column": None if what != "posterior" else _column(thing, variables),
        }
        if path.suffix == DOT:
            files.write_text(path, _dot(what, thing, values["row"]) + "\n")
        else:
            inches = size or (what == "circuit" and size_of_nodes(thing)) or picture.size
            title = f"{model.name}: {what}"
            draw(partial(_draw, what, thing, values), path, inches, title, dark)
    kind = type(held).__name__ if file is None else file.kind
    if as_json:
        report = {"model": model, "kind": kind, "picture": what, "output": path}
        print_json(report | {"bytes": path.stat().st_size})
    else:
        say(f"wrote {path}")


def _default_picture(held: Any) -> str:
    from strudel.io.read_write import is_model

    if is_model(held) and not files.columns_of(held).are_bits:
        return "marginals"
    return {"Vtree": "vtree", "ChowLiuTree": "tree"}.get(type(held).__name__, "circuit")


def check_picture(path: Path, what: str, said: str, *more: str) -> None:
    """Refuse a path that does not end like a picture."""
    from strudel.plotting.canvas import ENDINGS

    endings = (*ENDINGS, *more)
    if path.suffix not in endings:
        raise InputError(
            f"{what} is a {', '.join(endings[:-1])} or {endings[-1]} file, "
            f"but {said} says {str(path)!r}."
        )


def draw(
    onto: Callable[[Any], Any],
    path: Path,
    inches: tuple[float, float],
    title: str,
    dark: bool = False,
) -> None:
    """Draw onto axes, and write a picture."""
    from matplotlib import style

    from strudel.plotting.canvas import new_figure, save_figure, short_label

    with style.context("dark_background" if dark else "default"):
        figure = new_figure(*inches)
        figure.suptitle(short_label(title, longest=80), fontsize=11)
        onto(figure.add_subplot())
        save_figure(figure, path)


def _thing_to_draw(held: Any, history: Any, what: str, path: str) -> Any:
    """What the picture needs, out of what the file holds."""
    from strudel import Vtree
    from strudel.circuits.circuit import Circuit
    from strudel.io.read_write import as_kind, is_model

    if what == "curve":
        if history is None:
            raise InputError(f"{path!r} holds no history of learning; `strudel fit` keeps one.")
        return history
    if what == "tree" and type(held).__name__ == "ChowLiuTree":
        return held
    is_tree = what == "vtree" and not is_model(held)
    return as_kind(held, Vtree if is_tree else Circuit)[0]


def _one(model: Any, text: str, asked: str) -> Any:
    """What is given, of one row."""
    rows = files.read_given(model, text, asked)
    if len(rows) != 1:
        raise InputError(f"{asked} must be one row, but has {len(rows):,}.")
    return rows[0]


def _completed(model: Any, text: str) -> dict[str, Any]:
    """A row by column; values that are not given are the most probable ones."""
    from strudel import most_probable_state

    state, _ = most_probable_state(model, _one(model, text, "--row"))
    state = np.atleast_2d(state) if isinstance(state, np.ndarray) else state
    frame = files.as_frame(state, files.columns_of(model).names)
    return {name: cells[0] for name, cells in files.cells_of(frame).items()}


def _column(model: Any, text: str | None) -> str:
    """The column of numbers whose density is drawn."""
    (name,) = files.read_names(model, text, "--variables") or [""]
    numeric = [column.name for column in files.columns_of(model) if column.is_numeric]
    if name not in numeric:
        raise InputError(
            "--variables must name one column of numbers, "
            f"but {f'is {text!r}' if text else 'is not given'}. "
            f"The model has {', '.join(numeric) or 'none'}."
        )
    return name


def _draw(what: str, thing: Any, values: dict[str, Any], ax: Any) -> None:
    from strudel import plotting, queries

    given = values["given"]
    if what == "circuit":
        plotting.plot_circuit(thing, values["row"], ax=ax)
    elif what == "marginals":
        plotting.plot_marginals(thing, given, ax=ax, top=values["top"])
    elif what == "dependencies":
        plotting.plot_dependencies(thing, given, ax=ax)
    elif what == "posterior":
        queries.posterior(thing, values["column"], given).plot(ax)
    elif what == "correlations":
        queries.correlations(thing, given).plot(ax)
    else:
        drawings: dict[str, Any] = {
            "vtree": plotting.plot_vtree,
            "tree": plotting.plot_chow_liu_tree,
            "curve": plotting.plot_learning_curve,
            "components": plotting.plot_components,
        }
        drawings[what](thing, ax=ax)


def _dot(what: str, thing: Any, row: Any) -> str:
    from strudel.plotting import to_dot
    from strudel.plotting.trees import tree_of_model, vtree_and_names

    if what == "vtree":
        return to_dot(*vtree_and_names(thing, None))
    if what == "circuit" or type(thing).__name__ == "ChowLiuTree":
        return to_dot(thing, row=row)
    drawn = tree_of_model(thing)
    return to_dot(drawn.tree, drawn.names)
