"""`strudel convert`: from one file format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strudel.cli import files
from strudel.cli.console import InputError, JsonOption, option, tell, warnings_as_notes


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The file to read.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    vtree: Path | None = option("A .vtree file for IN to follow; an .sdd file may need it."),
    normalize: bool = option(
        "Normalize parameters that do not add up to one.", None, "--normalize", default=False
    ),
    force: bool = option("Read a model file that was changed after it was saved.", default=False),
    as_json: JsonOption = False,
) -> None:
    """Convert a model from one format to another, by the extensions of the files.

    Circuits: .strudel .psdd .jpc .spn. Vtrees: .vtree, also from anything that has one. Chow-Liu
    trees: .clt, which also become circuits. Logic: .sdd .nnf .jlc, which become circuits that give
    all satisfying rows the same probability; .cnf and .dnf. Predictors: .circuit .glc. All but
    .strudel may end in .gz.
    """
    from strudel import save, write
    from strudel.circuits.circuit import Circuit
    from strudel.io.read_write import as_kind, format_of, is_model

    if not files.is_of_others(source) and (vtree is not None or normalize):
        raise InputError("a .strudel file needs neither --vtree nor --normalize.")
    is_ours = target.suffix == ".strudel"
    kind = Circuit if is_ours else format_of(target).holds
    files.check_output(target, "the result", (target.suffix,), source, vtree)
    with warnings_as_notes():  # such as parameters that were normalised
        options = {"vtree": vtree, "normalize": normalize} if files.is_of_others(source) else {}
        model = files.read_any(source, force, **options)
        is_kept = is_ours and is_model(model)
        result, how = (model, "") if is_kept else as_kind(model, kind)
        (save if is_ours else write)(result, target)
    report = {"read": model, "written": result, "how": how, "output": target}
    tell({name: str(one) for name, one in report.items() if one}, as_json)
