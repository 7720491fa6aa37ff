"""What `strudel fit --target` does: learn to predict one column from the others."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from strudel.cli.console import (
    InputError,
    compile_line,
    print_json,
    say,
    show_facts,
    show_table,
    warnings_as_notes,
)
from strudel.cli.fit_report import in_words
from strudel.cli.input_tables import read_frame_rows
from strudel.cli.table_columns import drop_columns, rows_with_target, split_target, to_frame
from strudel.tables.column import label_texts

if TYPE_CHECKING:
    from strudel.models.classifier import StrudelClassifier
    from strudel.tables.columns import RawTable


class _NamedArray(np.ndarray[Any, Any]):
    """Values with a name, which a classifier keeps as that of its target."""

    name: str

    def __new__(cls, values: list[Any], name: str) -> _NamedArray:
        made = np.array(values).view(cls)
        made.name = name
        return made


def fit_classifier(
    model: StrudelClassifier,
    target: str,
    sources: dict[str, str],
    path: Path,
    dropped: list[str],
    as_json: bool,
    quiet: bool,
) -> None:
    """Learn, keep, and report how often it is right; `sources` are the tables of train and test."""
    from strudel._compiling import compiled, now
    from strudel.io.model_file import save

    tables = {part: _read(source, part, target, dropped) for part, source in sources.items()}
    started, before = now(), compiled()
    with warnings_as_notes(), nullcontext() if quiet else compile_line():
        table, y = tables["train"]
        model.fit(to_frame(table), _NamedArray(y, target))
        scores = {part: _score(model, *tables[part]) for part in tables}
    seconds = {"compiling": (compiled() - before).seconds, "learning": now() - started}
    facts = {
        "source": Path(sources["train"]).name,
        "target": target,
        "accuracy": scores["train"]["accuracy"],
    }
    save(model, path, provenance=facts)
    report = {
        "target": target,
        "classes": model.classes_,
        "scores": scores,
        "n_rows": {part: len(y) for part, (_, y) in tables.items()},
        "n_components": model.circuit_.n_components,
        "n_edges": model.circuit_.n_edges,
        "chosen": model.chosen_,
        "model": path,
        "seconds": seconds,
    }
    if as_json:
        print_json(report)
    elif not quiet:
        _show(report)


def _read(source: str, part: str, target: str, dropped: list[str]) -> tuple[RawTable, list[Any]]:
    """The columns to predict from, and the target, of the rows where that is known."""
    if target in dropped:
        raise InputError(f"--drop names {target!r}, which is to be predicted.")
    table, label = read_frame_rows(source, part)
    rest, y = split_target(drop_columns(table, label, dropped), label, target)
    return rows_with_target(rest, y, label, target)


def _score(model: StrudelClassifier, table: Any, y: list[Any]) -> dict[str, float]:
    return scores_of(model.classes_, model.predict_proba(to_frame(table)), y)


def scores_of(classes: Any, chances: Any, y: list[Any]) -> dict[str, float]:
    """How often the most probable class is right, and the mean log-loss in nats."""
    place = {value: number for number, value in enumerate(classes.tolist())}
    named = {str(value): number for value, number in place.items()}
    for value in set(y) - place.keys():  # "1" may have been read as a number
        numbers = [named[text] for text in label_texts(value) if text in named]
        place[value] = numbers[0] if numbers else -1
    right = np.array([place[value] for value in y])
    known = right >= 0
    with np.errstate(divide="ignore"):
        loss = -np.log(chances[np.flatnonzero(known), right[known]])
    loss = np.append(loss, np.full(int((~known).sum()), np.inf))
    return {
        "accuracy": float((chances.argmax(axis=1) == right).mean()),
        "log_loss": float(loss.mean()),
    }


def _show(report: dict[str, Any]) -> None:
    rows = [
        (part, report["n_rows"][part], score["accuracy"], score["log_loss"])
        for part, score in report["scores"].items()
    ]
    show_table(("", "rows", "accuracy", "log-loss"), rows)
    say()
    chosen = ", ".join(f"{name}={value}" for name, value in report["chosen"].items())
    show_facts(
        "",
        {
            "target": report["target"],
            "classes": ", ".join(map(str, report["classes"].tolist())),
            "components": report["n_components"],
            "edges": report["n_edges"],
            "chosen": chosen,
            "seconds": in_words(report["seconds"]),
            "model": report["model"],
        },
    )
