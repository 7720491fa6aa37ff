// What the page explains about itself.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { PageData } from "../model.ts";

function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => element.current?.showModal(), []);
  return (
    <dialog ref={element} onClose={close} onClick={(event) => event.target === element.current && close()} aria-label={title}>
      <h2>{title}</h2>
      {children}
      <button class="close" onClick={close}>Close</button>
    </dialog>
  );
}

export function Help({ close }: { close: () => void }): JSX.Element {
  return (
    <Dialog title="How to use this page" close={close}>
      <p>Each tile is a column of the table. A coloured bar is the probability of a value given everything you set;
        the grey bar behind it is the probability with nothing set.</p>
      <dl class="keys">
        <dt>Click a value</dt><dd>The column has this value. Click again to release it.</dd>
        <dt>Shift-click</dt><dd>The column does not have this value.</dd>
        <dt>Drag over numbers or dates</dt><dd>A range.</dd>
        <dt>◎</dt><dd>Ask about this column: its probabilities, what each value you set contributes, and what to ask next.</dd>
        <dt>Pin to compare</dt><dd>Keep this scenario. Violet bars are the pinned one, and differences are coloured.</dd>
        <dt>Tab, arrows</dt><dd>Go from column to column, and from value to value.</dd>
        <dt>Enter or Space</dt><dd>Set or release. With Shift: rule out.</dd>
        <dt>Shift and arrows</dt><dd>A range.</dd>
        <dt>Escape</dt><dd>Release the column.</dd>
        <dt>Ctrl+Z, Ctrl+Shift+Z</dt><dd>Undo, redo.</dd>
        <dt>/</dt><dd>Find columns.</dd>
      </dl>
      <p>Without a keyboard, “A click means” says what a tap does.</p>
    </Dialog>
  );
}

export function Why({ data, close }: { data: PageData; close: () => void }): JSX.Element {
  const { model } = data;
  return (
    <Dialog title="Why are these probabilities exact?" close={close}>
      <p>The model is a <i>probabilistic circuit</i>: a network of sums and products with {model.edges.toLocaleString("en")} edges
        {data.size.components > 1 && <>, {data.size.components.toLocaleString("en")} times with other numbers</>}. It was built so that any question
        about some columns, with all others summed out, takes one pass over the edges. The page does that pass when you click.
        Nothing is sampled, and nothing is approximated.</p>
      <p>The numbers in this file have single precision (about seven digits). The page computes with double precision and shows up to four digits.</p>
      <p>Exact means exact for this model. Whether the model describes the world well depends on the data it was learned from.
        It says what goes together, not what causes what.</p>
    </Dialog>
  );
}
