"""`strudel plot`: a picture of a model, or of what it says.

In:  a model file, or a file of another program.
Out: a png, svg or pdf, or text for Graphviz; complete or not at all.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strudel._names import did_you_mean
from strudel.cli.console import InputError, JsonOption, print_json, say, warnings_as_notes
from strudel.cli.evidence import GivenOption, is_condition, read_condition, read_given, read_what
from strudel.cli.model_files import ForceOption, read_held
from strudel.cli.outputs import check_output, write_text
from strudel.cli.shell_completion import complete_from

if TYPE_CHECKING:
    from strudel._types import FloatArray
    from strudel.io.model_states import HeldModel
    from strudel.queries.model import Model

DOT = ".dot"


class Picture(StrEnum):
    """What can be drawn."""

    CIRCUIT = "circuit"
    VTREE = "vtree"
    TREE = "tree"
    CURVE = "curve"
    MARGINALS = "marginals"
    COMPONENTS = "components"
    DEPENDENCIES = "dependencies"
    POSTERIOR = "posterior"
    CORRELATIONS = "correlations"


OWNERS = {  # which pictures an option belongs to
    "--given": (
        Picture.MARGINALS,
        Picture.DEPENDENCIES,
        Picture.POSTERIOR,
        Picture.CORRELATIONS,
    ),
    "--variables": (Picture.POSTERIOR,),
    "--row": (Picture.CIRCUIT,),
    "--top": (Picture.MARGINALS,),
}
SIZES = {  # in inches
    Picture.CIRCUIT: (10.0, 6.0),
    Picture.VTREE: (10.0, 5.0),
    Picture.TREE: (8.0, 6.5),
    Picture.CURVE: (7.0, 4.2),
    Picture.MARGINALS: (7.0, 5.5),
    Picture.COMPONENTS: (8.0, 5.0),
    Picture.DEPENDENCIES: (7.0, 6.0),
    Picture.POSTERIOR: (7.0, 4.2),
    Picture.CORRELATIONS: (7.0, 6.0),
}
DRAWN_AS_DOT = (Picture.CIRCUIT, Picture.VTREE, Picture.TREE)


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
            autocompletion=complete_from(Picture),
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="A .png, .svg, .pdf or .dot file; MODEL's name and WHAT with .png by default.",
        ),
    ] = None,
    given: GivenOption = None,
    variables: Annotated[
        str | None, typer.Option(metavar="X", help="posterior: of this column of numbers.")
    ] = None,
    row: Annotated[
        str | None,
        typer.Option(
            metavar="X=1,Y=0,...|0,1,...|TABLE:N",
            help="circuit: mark the edges of this row in red; N counts from 0.",
        ),
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="marginals: at most this many bars.")
    ] = None,
    dark: Annotated[bool, typer.Option("--dark", help="Light on dark.")] = False,
    size: Annotated[
        str | None, typer.Option(metavar="WxH", help="Width and height in inches, such as 12x8.")
    ] = None,
    force: ForceOption = False,
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
    components    the components of a mixture: weights, and marginals of each
    dependencies  the correlation of every two variables; for columns, the mutual information
    posterior     the density of a column of numbers, named by --variables
    correlations  of all columns that have an order

    A .vtree file is drawn as a vtree and a .clt file as a tree by default. A .dot file is for
    Graphviz: circuit, vtree or tree.
    """  # noqa: D301
    from strudel.plotting.marginals import as_evidence

    picture = None if what is None else read_what(what, Picture)
    held = _read(model, force)
    picture = picture or (Picture.CIRCUIT if row is not None else _default_picture(held.model))
    asked = {"--given": given, "--variables": variables, "--row": row, "--top": top}
    for option, value in asked.items():
        if value is not None and picture not in OWNERS[option]:
            raise InputError(
                f"{option} goes with {' and '.join(OWNERS[option])}, not with {picture}."
            )
    path = _checked_output(output, model, picture, given, row)
    inches = None if size is None else _read_size(size)
    with warnings_as_notes():  # such as letters that a font lacks
        thing = _thing_to_draw(held, picture, model)
        inches = inches or _good_size(thing, picture)
        values: dict[str, Any] = {"given": None, "row": None, "top": top, "column": None}
        if picture is Picture.POSTERIOR:
            values["column"] = _read_column(thing, variables)
        if given is not None:
            values["given"] = _read_given(thing, given)
        if row is not None:
            values["row"] = as_evidence(thing, _read_row(thing, row))
        if path.suffix == DOT:
            _write_dot(thing, picture, values["row"], path)
        else:
            _draw(thing, picture, values, path, inches, f"{model.name}: {picture}", dark)
    report = {"model": model, "kind": held.kind, "picture": picture.value, "output": path}
    if as_json:
        print_json(report | {"bytes": path.stat().st_size})
    else:
        say(f"wrote {path}")


def _read(path: Path, force: bool) -> HeldModel:
    """What a file holds."""
    from strudel.io.formats.text import bare_suffix
    from strudel.io.model_states import HeldModel
    from strudel.io.read_write import FORMATS, read

    if bare_suffix(path) in FORMATS and path.is_file():
        found = read(path)
        return HeldModel(type(found).__name__, found, {}, None)
    return read_held(path, force)


def _default_picture(held: Any) -> Picture:
    from strudel.trees.chow_liu import ChowLiuTree
    from strudel.trees.vtree import Vtree

    if isinstance(held, Vtree):
        return Picture.VTREE
    if isinstance(held, ChowLiuTree):
        return Picture.TREE
    is_table = getattr(held, "table_code", None) is not None
    return Picture.MARGINALS if is_table else Picture.CIRCUIT


def _checked_output(
    output: Path | None, model: Path, what: Picture, given: str | None, row: str | None
) -> Path:
    from strudel.plotting.canvas import ENDINGS

    name = model.name.removesuffix(".gz")
    path = output or Path(f"{Path(name).stem}-{what}.png")
    endings = (*ENDINGS, DOT) if what in DRAWN_AS_DOT else ENDINGS
    if path.suffix not in endings:
        raise InputError(
            f"a picture of {what} is a {', '.join(endings[:-1])} or {endings[-1]} file, "
            f"but -o says {str(path)!r}."
        )
    return check_output(path, "the picture", {str(model), given, row}, path.suffix)


def _read_size(text: str) -> tuple[float, float]:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)", text.strip())
    width, height = (float(found[1]), float(found[2])) if found else (0.0, 0.0)
    if not (1.0 <= width <= 100.0 and 1.0 <= height <= 100.0):
        raise InputError(f"--size must be like 12x8, from 1x1 to 100x100 inches, but is {text!r}.")
    return width, height


def _good_size(thing: Any, what: Picture) -> tuple[float, float]:
    """Inches in which the picture can be read."""
    from strudel.plotting.circuits import size_of_nodes

    return (size_of_nodes(thing) if what is Picture.CIRCUIT else None) or SIZES[what]


def _thing_to_draw(file: HeldModel, what: Picture, path: Path) -> Any:
    """What the picture needs, out of what the file holds."""
    from strudel.circuits.compile import compile_chow_liu
    from strudel.circuits.mixture import Mixture
    from strudel.logic.formula import Nnf
    from strudel.logic.satisfying_rows import uniform_circuit
    from strudel.logic.sdd import Sdd
    from strudel.queries.model import model_of
    from strudel.trees.chow_liu import ChowLiuTree
    from strudel.trees.vtree import Vtree, vtree_from_chow_liu

    if what is Picture.CURVE:
        if file.history is None:
            raise InputError(
                f"{str(path)!r} holds no history of learning; `strudel fit` keeps one."
            )
        return file.history
    held = file.model
    if isinstance(held, ChowLiuTree):
        if what is Picture.TREE:
            return held
        vtree = vtree_from_chow_liu(held)
        return vtree if what is Picture.VTREE else compile_chow_liu(held, vtree)
    if what is Picture.VTREE:
        found = held if isinstance(held, Vtree) else getattr(held, "vtree", None)
        if isinstance(found, Vtree) and not hasattr(held, "feature_names"):
            return found
    if isinstance(held, Sdd | Nnf):  # all satisfying rows equally likely
        return uniform_circuit(held)
    try:
        model = model_of(held)
    except TypeError as error:
        raise InputError(
            f"{str(path)!r} holds a {file.kind}, of which there is no picture of {what}."
        ) from error
    if what is Picture.COMPONENTS and not isinstance(model, Mixture):
        raise InputError(f"{str(path)!r} holds a single circuit, which has no components.")
    return model


def _read_given(model: Model, text: str) -> Any:
    """What is given: an event, or the row of a table as values by name."""
    from strudel.plotting.marginals import as_evidence

    if is_condition(text, model):
        return read_condition(model, text, "--given")
    return as_evidence(model, _one_row(read_given(model, text).rows, "--given"))


def _read_column(model: Model, text: str | None) -> str:
    """The column of numbers whose density is drawn."""
    columns = () if model.table_code is None else model.table_code.columns
    numeric = [column.name for column in columns if column.is_numeric]
    if not numeric:
        raise InputError("a posterior is of a column of numbers, but the model has none.")
    if text not in numeric:
        found = "is not given" if text is None else f"is {text!r}"
        raise InputError(
            f"--variables must name one column of numbers, but {found}. "
            f"{did_you_mean(text or '', numeric)}"
        )
    return text


def _one_row(rows: FloatArray, option: str) -> FloatArray:
    if len(rows) != 1:
        raise InputError(f"{option} must be one row, but has {len(rows):,}.")
    return rows[0]


def _read_row(model: Model, text: str) -> Any:
    """One value for every variable: by name, in order, or from a table."""
    import numpy as np

    if re.fullmatch(r"\s*[01](\s*,?\s*[01])*\s*", text):
        values = np.array([int(bit) for bit in re.sub(r"[\s,]", "", text)])
        if len(values) != model.n_vars:
            raise InputError(
                f"--row has {len(values)} values, but the model has {model.n_vars} variables."
            )
        return values
    source, number = text, None
    numbered = re.fullmatch(r"(.+):(\d+)", text)
    if numbered and not Path(text).exists():
        source, number = numbered[1], int(numbered[2])
    rows = read_given(model, source).rows
    if number is None:
        values = _one_row(rows, "--row")
    elif number < len(rows):
        values = rows[number]
    else:
        raise InputError(f"--row asks for row {number}, but {source} has {len(rows):,} rows.")
    unknown = np.flatnonzero(np.isnan(values))
    if len(unknown):
        from strudel.cli.evidence import variable_names

        raise InputError(
            f"--row must give all {model.n_vars} variables, but lacks "
            f"{variable_names(model)[unknown[0]]!r}."
        )
    return values


def _draw(
    thing: Any,
    what: Picture,
    values: dict[str, Any],
    path: Path,
    inches: tuple[float, float],
    title: str,
    dark: bool,
) -> None:
    from matplotlib import style

    from strudel.plotting.canvas import new_figure, save_figure, short_label
    from strudel.plotting.circuits import plot_circuit
    from strudel.plotting.curves import plot_learning_curve
    from strudel.plotting.heat_maps import plot_components, plot_dependencies
    from strudel.plotting.marginals import plot_marginals
    from strudel.plotting.trees import plot_chow_liu_tree, plot_vtree
    from strudel.queries.columns.column_posterior import posterior
    from strudel.queries.columns.correlations import correlations

    with style.context("dark_background" if dark else "default"):
        figure = new_figure(*inches)
        figure.suptitle(short_label(title, longest=80), fontsize=11)
        ax = figure.add_subplot()
        if what is Picture.CIRCUIT:
            plot_circuit(thing, values["row"], ax=ax)
        elif what is Picture.MARGINALS:
            plot_marginals(thing, values["given"], ax=ax, top=values["top"])
        elif what is Picture.DEPENDENCIES:
            plot_dependencies(thing, values["given"], ax=ax)
        elif what is Picture.POSTERIOR:
            posterior(thing, values["column"], values["given"]).plot(ax)
        elif what is Picture.CORRELATIONS:
            correlations(thing, values["given"]).plot(ax)
        else:
            drawings: dict[Picture, Any] = {
                Picture.VTREE: plot_vtree,
                Picture.TREE: plot_chow_liu_tree,
                Picture.CURVE: plot_learning_curve,
                Picture.COMPONENTS: plot_components,
            }
            drawings[what](thing, ax=ax)
        save_figure(figure, path)


def _write_dot(thing: Any, what: Picture, row: Any, path: Path) -> None:
    from strudel.plotting.dot import to_dot
    from strudel.plotting.trees import tree_of_model, vtree_and_names
    from strudel.queries.model import structure_of
    from strudel.trees.chow_liu import ChowLiuTree

    if what is Picture.VTREE:
        text = to_dot(*vtree_and_names(thing, None))
    elif what is Picture.CIRCUIT:
        text = to_dot(structure_of(thing), row=row)
    elif isinstance(thing, ChowLiuTree):
        text = to_dot(thing)
    else:
        drawn = tree_of_model(thing)
        text = to_dot(drawn.tree, drawn.names)
    write_text(path, (text, "\n"))
