"""`strudel predict`: the class of every row, and how probable each class is."""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel.cli import files
from strudel.cli.console import InputError, JsonOption, note, print_json, warnings_as_notes


def predict(
    model: files.ModelArgument,
    data: files.DataArgument,
    output: files.RowsOutput = None,
    force: files.ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Predict the class of every row, with a model of `strudel fit --target`.

    The csv has the predicted class and the probability of each class. Unknown values are summed out
    exactly. If DATA has the predicted column, the command also says how often the model is
    right.
    """
    from strudel import StrudelClassifier

    files.check_table_output(output, "the predictions", model, data)
    held = files.read_file(model, force)
    if not isinstance(held, StrudelClassifier):
        raise InputError(
            f"{str(model)!r} holds a {type(held).__name__}, not a classifier: learn one with "
            "strudel fit DATA --target COLUMN."
        )
    rows, target, classes = files.read_rows(data), held.target_name_, held.classes_.tolist()
    truth = rows.pop(target) if target in rows and len(rows.columns) > 1 else None
    with warnings_as_notes(data):
        chances = held.predict_proba(rows)
    columns: dict[str, Any] = {target: [classes[place] for place in chances.argmax(axis=1)]}
    columns |= {f"P({target}={value})": chances[:, k].tolist() for k, value in enumerate(classes)}
    report: dict[str, Any] = {"target": target, "n_rows": len(rows), "output": output}
    if truth is not None and truth.notna().any():
        is_known = truth.notna().to_numpy()
        report |= scores_of(held.classes_, chances[is_known], truth[is_known])
        report["n_scored"] = n_scored = int(is_known.sum())
        some = "" if n_scored == len(rows) else f" of the {n_scored:,} rows with {target!r}"
    if output is not None or not as_json:
        files.write_rows(output, columns)
    if as_json:
        print_json(report | ({} if output is not None else {"predictions": columns}))
        return
    if "accuracy" in report:
        note(f"accuracy {report['accuracy']:.4f}, log-loss {report['log_loss']:.4f}{some}")
    if output is not None:
        note(f"wrote {len(rows):,} predictions to {output}")


def scores_of(classes: Any, chances: Any, truth: Any) -> dict[str, float]:
    """How often the most probable class is right, and the mean log-loss in nats."""
    from strudel.tables.column import label_texts

    place = {value: number for number, value in enumerate(classes.tolist())}
    named = {str(value): number for value, number in place.items()}
    y = truth.tolist()
    for value in set(y) - place.keys():  # "1" may have been read as a number
        numbers = [named[text] for text in label_texts(value) if text in named]
        place[value] = numbers[0] if numbers else -1
    right = np.array([place[value] for value in y])
    with np.errstate(divide="ignore"):
        loss = -np.log(chances[np.arange(len(y)), right])
    loss[right < 0] = np.inf
    return {
        "accuracy": float((chances.argmax(axis=1) == right).mean()),
        "log_loss": float(loss.mean()),
    }
