"""`strudel fit --resume`: the checkpoint of a fit, next to the future model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strudel.cli.console import InputError, note

if TYPE_CHECKING:
    from strudel.io.checkpoint_file import Checkpoint

OUTPUT = "Output"  # the panel of the help

ResumeOption = Annotated[
    bool | None,
    typer.Option(
        "--resume/--no-resume",
        rich_help_panel=OUTPUT,
        help="Continue from the checkpoint of a fit that was killed, or start again.",
        show_default=False,
    ),
]
SecondsOption = Annotated[
    float,
    typer.Option(
        rich_help_panel=OUTPUT,
        metavar="SECONDS",
        min=0.0,
        help="Write a checkpoint, MODEL.part, at this interval, in seconds.",
    ),
]


class KeptCheckpoint:
    """A checkpoint that stays until the model is written."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.open = checkpoint.open

    def remove(self) -> None:
        """Nothing yet: `fit` is done, but its model is not in a file."""

    def end(self) -> None:
        """Delete the file."""
        self.checkpoint.remove()


def open_checkpoint(model: Path, resume: bool | None, seconds: float) -> KeptCheckpoint:
    """The checkpoint that belongs to a model; one that is left over is never silently deleted."""
    from strudel.io.checkpoint_file import Checkpoint

    checkpoint = Checkpoint(model.with_name(f"{model.name}.part"), seconds)
    is_there = checkpoint.path.exists()
    if checkpoint.path.is_dir():
        raise InputError(f"cannot write a checkpoint to {str(checkpoint.path)!r}: it is a folder.")
    if not checkpoint.claim():
        if resume is not None:
            raise InputError(
                f"{str(checkpoint.path)!r} belongs to another fit, which is running: wait for it, "
                "or give -o another name."
            )
        return KeptCheckpoint(checkpoint)  # which says that there is none
    if is_there and resume is None:
        raise InputError(
            f"{str(checkpoint.path)!r} is left from a fit that did not finish: --resume continues "
            "it, --no-resume starts again."
        )
    if is_there and not resume:
        checkpoint.remove()
    if resume:
        found = "continuing from" if is_there else "starting again: there is no checkpoint"
        note(f"note: {found} {str(checkpoint.path)!r}")
    return KeptCheckpoint(checkpoint)
