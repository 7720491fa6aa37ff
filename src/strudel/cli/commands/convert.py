"""`strudel convert`: from one file format to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strudel.cli.console import InputError, JsonOption, print_json, show_facts, warnings_as_notes
from strudel.cli.model_files import ForceOption
from strudel.cli.outputs import check_output

if TYPE_CHECKING:
    from strudel.io.read_write import Format

MODEL = ".strudel"


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The file to read.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    vtree: Annotated[
        Path | None, typer.Option(help="A .vtree file for IN to follow; an .sdd file may need it.")
    ] = None,
    normalize: Annotated[
        bool,
        typer.Option("--normalize", help="Normalize parameters that do not add up to one."),
    ] = False,
    without_names: Annotated[
        bool,
        typer.Option("--without-names", help="Leave out feature names, which .spn cannot hold."),
    ] = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Convert a model from one format to another, by the extensions of the files.

    Circuits: .strudel .psdd .jpc .spn. Vtrees: .vtree, also from anything that has one. Chow-Liu
    trees: .clt, which also become circuits. Logic: .sdd .nnf .jlc, which become circuits that give
    all satisfying rows the same probability; .cnf and .dnf. Predictors: .circuit .glc. All but
    .strudel may end in .gz.
    """
    from strudel.io.formats.text import bare_suffix
    from strudel.io.model_file import save
    from strudel.io.read_write import format_of, write

    if not source.exists():
        raise InputError(f"there is no file {str(source)!r}.")
    wanted = None if bare_suffix(target) == MODEL else format_of(target)
    ending = MODEL if wanted is None else target.suffix
    inputs = {str(source), None if vtree is None else str(vtree)}
    check_output(target, "the result", inputs, ending)
    with warnings_as_notes():  # such as parameters that were normalised
        model = _read(source, vtree, normalize, force)
    result, how = _as_kind(model, wanted)
    if without_names and hasattr(result, "with_names"):
        result = result.with_names(None)
    if wanted is None:
        save(result, target)
    else:
        write(result, target)
    report = {"read": model, "written": result, "how": how, "output": target}
    if as_json:
        print_json(report)
    else:
        show_facts(f"{source} -> {target}", {k: v for k, v in report.items() if v})


def _read(path: Path, vtree: Path | None, normalize: bool, force: bool) -> Any:
    from strudel.io.formats.text import bare_suffix
    from strudel.io.model_file import load
    from strudel.io.read_write import read

    if bare_suffix(path) != MODEL:
        return read(path, vtree=vtree, normalize=normalize)
    if vtree is not None or normalize:
        raise InputError("a .strudel file needs neither --vtree nor --normalize.")
    return load(path, verify=not force)


def _as_kind(model: Any, wanted: Format | None) -> tuple[Any, str]:
    """The model as what a format holds, and in words what was done to it."""
    from strudel.circuits.circuit import Circuit
    from strudel.circuits.compile import compile_chow_liu
    from strudel.circuits.mixture import Mixture
    from strudel.logic.formula import Nnf
    from strudel.logic.satisfying_rows import uniform_circuit
    from strudel.logic.sdd import Sdd, nnf_from_sdd
    from strudel.trees.chow_liu import ChowLiuTree
    from strudel.trees.vtree import Vtree, vtree_from_chow_liu

    kind = Circuit if wanted is None else wanted.holds
    held = getattr(model, "circuit_", model)
    is_whole = isinstance(model, Mixture) or hasattr(model, "circuit_")
    if isinstance(model, kind) or (wanted is None and is_whole):
        return model, ""
    if kind is Circuit and isinstance(held, Circuit):
        return held, "the circuit of the estimator"
    if kind is Circuit and isinstance(model, ChowLiuTree):
        return compile_chow_liu(model, vtree_from_chow_liu(model)), "compiled"
    if kind is Circuit and isinstance(held, Mixture):
        return held.to_circuit(), f"the {held.n_components} components as one circuit"
    if kind is Circuit and isinstance(model, Sdd | Nnf):
        return uniform_circuit(model), "all satisfying rows equally likely"
    if kind is Nnf and isinstance(model, Sdd):
        return nnf_from_sdd(model), "without the vtree"
    if kind is Vtree:
        if isinstance(model, ChowLiuTree):
            return vtree_from_chow_liu(model), "the vtree of the tree"
        found = getattr(held, "vtree", None)
        if found is not None:
            return found, "the vtree only"
    words = "a circuit" if wanted is None else wanted.words
    raise InputError(
        f"the output would hold {words}, which cannot be made from a {type(model).__name__}."
    )
