"""`strudel plot`: a picture of a model, or of what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import typer

from strudel._files import complete_file
from strudel.cli import files
from strudel.cli.console import InputError, JsonOption, option, print_json, say, warnings_as_notes


class Picture(NamedTuple):
    """In how many inches it is drawn, which options belong to it, and whether Graphviz can."""

    size: tuple[float, float]
    takes: tuple[str, ...] = ()
    has_dot: bool = False


PICTURES = {
    "circuit": Picture((10.0, 6.0), ("row",), has_dot=True),
    "vtree": Picture((10.0, 5.0), has_dot=True),
    "tree": Picture((8.0, 6.5), has_dot=True),
    "curve": Picture((7.0, 4.2)),
    "marginals": Picture((7.0, 5.5), ("given", "top")),
    "components": Picture((8.0, 5.0)),
    "dependencies": Picture((7.0, 6.0), ("given",)),
    "posterior": Picture((7.0, 4.2), ("given", "variables")),
    "correlations": Picture((7.0, 6.0), ("given",)),
}


def plot(
    typed: typer.Context,
    model: files.ModelArgument,
    what: str | None = typer.Argument(
        None,
        metavar="WHAT",
        help="One of the pictures above; circuit by default, and marginals for a table.",
        autocompletion=lambda: list(PICTURES),
    ),
    output: Path | None = option(
        "A .png, .svg, .pdf or .dot file; MODEL-WHAT.png by default.", None, *files.OUTPUT
    ),
    given: str | None = files.GIVEN,
    variables: str | None = option("posterior: of this column of numbers.", "X"),
    row: str | None = option(
        "circuit: mark this row in red; its rest is most probable.", "X=1,Y=0,...|TABLE"
    ),
    top: int | None = option("marginals: at most so many bars.", min=1),
    dark: bool = option("Light on dark.", None, "--dark", default=False),
    size: tuple[float, float] | None = option("Width and height in inches, such as 12 8.", "W H"),
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
    from strudel import plotting, queries
    from strudel.plotting.canvas import ENDINGS
    from strudel.plotting.circuits import size_of_nodes

    what = None if what is None else files.read_meant(what, PICTURES)
    held = files.read_held(model)
    what = what or ("circuit" if row is not None else _default_picture(held.model))
    picture = PICTURES[what]
    takes = {name: one.takes for name, one in PICTURES.items()}
    options = files.options_of(what, takes, typed.params)
    path = output or Path(f"{Path(model.name.removesuffix('.gz')).stem}-{what}.png")
    endings = (*ENDINGS, *([".dot"] if picture.has_dot else []))
    files.check_output(path, f"a picture of {what}", endings, model, given, row)
    if size is not None and not all(1.0 <= inches <= 100.0 for inches in size):
        raise InputError(f"--size must be from 1 1 to 100 100 inches, but is {size}.")
    with warnings_as_notes():  # such as letters that a font lacks
        thing = _thing_to_draw(held, what, model)
        for name in [name for name in ("given", "row") if name in options]:
            rows = files.read_given(thing, options[name])
            if len(rows) != 1:
                raise InputError(f"--{name} must be one row, but has {len(rows):,}.")
            options[name] = rows[0]
        if row is not None:
            state, _ = queries.most_probable_state(thing, options["row"])
            options["row"] = files.rows_of(state, files.columns_of(thing).names)[0]
        if path.suffix == ".dot":
            with complete_file(path) as unfinished:
                text = plotting.to_dot(thing, row=options.get("row"), what=what)
                unfinished.write_text(text + "\n", "utf-8")
        else:
            inches = size or (what == "circuit" and size_of_nodes(thing)) or picture.size
            title = f"{model.name}: {what}"
            draw(lambda ax: _draw(what, thing, ax, **options), path, inches, title, dark)
    if as_json:
        report = {"model": model, "kind": held.kind, "picture": what, "output": path}
        print_json(report | {"bytes": path.stat().st_size})
    else:
        say(f"wrote {path}")


def _default_picture(model: Any) -> str:
    from strudel.io.read_write import is_model

    if is_model(model) and not files.columns_of(model).are_bits:
        return "marginals"
    return {"Vtree": "vtree", "ChowLiuTree": "tree"}.get(type(model).__name__, "circuit")


def draw(onto: Any, path: Path, inches: Any, title: str, dark: bool = False) -> None:
    """Draw onto axes, and write a picture."""
    from matplotlib import style

    from strudel.plotting.canvas import new_figure, save_figure, short_label

    with style.context("dark_background" if dark else "default"):
        figure = new_figure(*inches)
        figure.suptitle(short_label(title, longest=80), fontsize=11)
        onto(figure.add_subplot())
        save_figure(figure, path)


def _thing_to_draw(held: Any, what: str, path: Path) -> Any:
    """What the picture needs, out of what the file holds."""
    from strudel import Vtree
    from strudel.io.read_write import as_kind, is_model

    if what == "curve":
        if held.history is None:
            raise InputError(f"{str(path)!r} holds no history of learning, as of `strudel fit`.")
        return held.history
    if what == "tree" and held.kind == "ChowLiuTree":
        return held.model
    if what == "vtree" and not is_model(held.model):
        return as_kind(held.model, Vtree)[0]
    return files.as_model(held.model)


def _draw(what: str, thing: Any, ax: Any, variables: str = "", **options: Any) -> None:
    from strudel import plotting, queries

    if what == "posterior":
        queries.posterior(thing, variables, **options).plot(ax)
    elif what == "correlations":
        queries.correlations(thing, **options).plot(ax)
    else:
        longer = {"tree": "chow_liu_tree", "curve": "learning_curve"}
        getattr(plotting, f"plot_{longer.get(what, what)}")(thing, ax=ax, **options)
