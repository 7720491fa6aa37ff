"""`strudel predict`: the class of every row, and how probable each class is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from strudel.cli import files
from strudel.cli.console import InputError, JsonOption, note, warnings_as_notes


def predict(
    model: files.ModelArgument,
    data: files.DataArgument,
    output: Path | None = files.ROWS,
    as_json: JsonOption = False,
) -> None:
    """Predict the class of every row, with a model of `strudel fit --target`.

    The csv has the predicted class and the probability of each class. Unknown values are summed out
    exactly. If DATA has the predicted column, the command also says how often the model is
    right.
    """
    from strudel import StrudelClassifier
    from strudel.models.classifier import class_scores

    files.check_output(output, "a table", files.TABLES, model, data)
    held = files.read_any(model)
    if not isinstance(held, StrudelClassifier):
        raise InputError(
            f"{str(model)!r} is not a classifier: learn one with strudel fit DATA --target COLUMN."
        )
    rows, target, classes = files.read_rows(data), held.target_name_, held.classes_.tolist()
    truth = rows.pop(target) if target in rows and len(rows.columns) > 1 else None
    with warnings_as_notes(data):
        chances = held.predict_proba(rows)
    columns: dict[str, Any] = {target: [classes[place] for place in chances.argmax(axis=1)]}
    columns |= {f"P({target}={value})": chances[:, k] for k, value in enumerate(classes)}
    report: dict[str, Any] = {"target": target, "n_rows": len(rows)}
    is_known = np.zeros(len(rows), dtype=bool) if truth is None else truth.notna().to_numpy()
    if truth is not None and is_known.any():
        scores = class_scores(held.classes_, chances[is_known], truth[is_known])
        report |= scores | {"n_scored": int(is_known.sum())}
        some = "" if is_known.all() else f" of the {is_known.sum():,} rows with {target!r}"
        if not as_json:
            note(f"accuracy {scores['accuracy']:.4f}, log-loss {scores['log_loss']:.4f}{some}")
    said = f"wrote {len(rows):,} predictions"
    files.give_rows(files.as_frame(columns), output, as_json, report, said)
