// One column: a bar for every value, what is known without anything set in grey behind it.

import { memo } from "preact/compat";
import { useEffect, useRef, useState } from "preact/hooks";
import type { JSX } from "preact";
import type { Column } from "../model.ts";
import { endsOf, meanOf, meanText, moved, percent, points, saying } from "../words.ts";

export type Action = "choose" | "exclude" | "range";

export interface TileProps {
  column: Column;
  place: number;
  prior: Float64Array;
  now: Float64Array;
  pinned: Float64Array | null;
  mask: Uint8Array | undefined;
  isTarget: boolean;
  isImpossible: boolean;
  act: (column: number, value: number, action: Action, from?: number, isSameDrag?: boolean) => void;
  release: (column: number) => void;
  aim: (column: number) => void;
}

const FEW = 10; // values that are listed at once
const LISTED = 8; // of more
const MANY = 4; // values, which are seldom near 100 %
const CROWDED = 12; // bars side by side
const LONG = 14; // letters of a cell that leave no room for the mean beside it

export const isHistogram = (column: Column): boolean =>
  (column.kind === "number" || column.kind === "date") && column.size > 3;

/** The height of a tile in pixels, known before it is drawn, so that far away ones need not be. */
export function heightOf(column: Column, isOpen: boolean): number {
  if (isHistogram(column)) return column.texts.some((text) => text.length > LONG) ? 225 : 207;
  const rows = column.size > FEW && !isOpen ? LISTED : column.size;
  return 54 + 27 * rows + (column.size > FEW ? 26 : 0);
}

function TileView(props: TileProps): JSX.Element {
  const { column, place, prior, now, pinned, mask, isTarget } = props;
  const [isOpen, setOpen] = useState(false);
  const [isNear, setNear] = useState(false);
  const element = useRef<HTMLElement>(null);
  useEffect(() => {
    const watch = new IntersectionObserver(([entry]) => setNear(entry.isIntersecting), { rootMargin: "600px" });
    watch.observe(element.current!);
    const draw = () => setNear(true);
    addEventListener("beforeprint", draw);
    return () => {
      watch.disconnect();
      removeEventListener("beforeprint", draw);
    };
  }, []);
  const height = heightOf(column, isOpen);
  const change = moved(now, pinned ?? prior);
  return (
    <section
      ref={element} class={`tile${mask ? " set" : ""}${isTarget ? " target" : ""}`} data-column={column.name} data-place={place}
      style={{ gridRowEnd: `span ${Math.ceil((height + 12) / 4)}`, minHeight: `${height}px` }}
      aria-label={column.name}
    >
      <header>
        <h3 title={column.name}><bdi>{column.name}</bdi></h3>
        {mask
          ? <button class="mini" onClick={() => props.release(place)} aria-label={`Release ${column.name}`} title="Release">✕</button>
          : !props.isImpossible && change >= 0.0005
            && <span class="change" title={`${percent(change)} of the probability moved from some values to others`}>{percent(change)} moved</span>}
        <button
          class={`mini aim${isTarget ? " on" : ""}`} aria-pressed={isTarget} onClick={() => props.aim(place)}
          aria-label={`Ask about ${column.name}`} title="Ask about this column"
        >◎</button>
      </header>
      {isNear && <Values {...props} isOpen={isOpen} setOpen={setOpen} />}
    </section>
  );
}

export const Tile = memo(TileView);

function Values(props: TileProps & { isOpen: boolean; setOpen: (open: boolean) => void }): JSX.Element {
  const { column, place, prior, now, pinned, mask, isImpossible, isOpen, setOpen } = props;
  const [focus, setFocus] = useState(0); // the value that Tab reaches
  const [hover, setHover] = useState<number | null>(null);
  const drag = useRef<{ from: number; to: number; isMoved: boolean } | null>(null);
  const anchor = useRef<number | null>(null); // where a range with shift and arrows starts
  const list = useRef<HTMLDivElement>(null);
  const isBars = !isHistogram(column);
  const shown = column.size > FEW && isBars && !isOpen
    ? [...column.labels.keys()]
      .sort((a, b) => Number(mask?.[b] ?? 0) - Number(mask?.[a] ?? 0) || now[b] - now[a] || a - b)
      .slice(0, LISTED).sort((a, b) => a - b)
    : [...column.labels.keys()];
  const most = Math.max(0.02, ...now, ...prior, ...(pinned ?? []));
  const largest = !isBars ? most : column.size > MANY ? Math.min(1, 1.1 * most) : 1; // few: all of 100 %

  const go = (value: number) => {
    setFocus(value);
    list.current?.querySelector<HTMLElement>(`[data-value="${value}"]`)?.focus();
  };
  const onKeyDown = (event: KeyboardEvent, value: number) => {
    const at = shown.indexOf(value);
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (event.key === "Enter" || event.key === " ") {
      anchor.current = value;
      props.act(place, value, event.shiftKey ? "exclude" : "choose");
    } else if (event.key === "Escape" || event.key === "Delete" || event.key === "Backspace") {
      props.release(place);
    } else if (event.key === "Home") go(shown[0]);
    else if (event.key === "End") go(shown.at(-1)!);
    else if (step !== undefined) {
      const next = shown[Math.min(shown.length - 1, Math.max(0, at + step))];
      if (event.shiftKey) {
        anchor.current ??= value;
        props.act(place, next, "range", anchor.current);
      } else anchor.current = null;
      go(next);
    } else return;
    event.preventDefault();
  };
  const onPointerDown = (event: PointerEvent, value: number) => {
    if (event.button === 0 && !event.shiftKey && column.isOrdered) drag.current = { from: value, to: value, isMoved: false };
  };
  const onPointerMove = (event: PointerEvent) => {
    if (!drag.current || event.buttons === 0) return;
    const under = document.elementFromPoint(event.clientX, event.clientY)?.closest<HTMLElement>("[data-value]");
    if (!under || !list.current?.contains(under)) return;
    const to = Number(under.dataset.value);
    if (to === drag.current.to) return;
    props.act(place, to, "range", drag.current.from, drag.current.isMoved);
    drag.current = { ...drag.current, to, isMoved: true };
  };
  const onClick = (event: MouseEvent, value: number) => {
    const isDragged = drag.current?.isMoved;
    drag.current = null;
    if (isDragged) return;
    setFocus(value);
    anchor.current = value;
    props.act(place, value, event.shiftKey ? "exclude" : "choose");
  };
  const bars = shown.map((value) => {
    const [p, before] = [now[value], prior[value]];
    const isSet = mask?.[value] === 1;
    const isOut = mask !== undefined && !isSet;
    const held = pinned?.[value];
    const difference = held === undefined ? null : p - held;
    const label = `${column.name}, ${column.texts[value]}: ${isImpossible ? "no answer" : percent(p)}, `
      + `${percent(before)} with nothing set${held === undefined ? "" : `, ${percent(held)} pinned`}`
      + `${isSet ? ", set" : isOut ? ", ruled out" : ""}`;
    return (
      <button
        key={value} class={`value${isSet ? " is" : ""}${isOut ? " out" : ""}`} data-value={value}
        data-p={isImpossible ? "" : p} data-prior={before} data-pinned={held ?? ""}
        tabIndex={value === (shown.includes(focus) ? focus : shown[0]) ? 0 : -1}
        aria-label={label} aria-pressed={isSet} title={`${column.texts[value]}: ${isImpossible ? "–" : percent(p)} (${percent(before)} with nothing set)`}
        onClick={(event) => onClick(event, value)} onKeyDown={(event) => onKeyDown(event, value)}
        onPointerDown={(event) => onPointerDown(event, value)}
        onPointerEnter={() => setHover(value)} onPointerLeave={() => setHover(null)} onFocus={() => setHover(value)} onBlur={() => setHover(null)}
      >
        <span class="text"><bdi>{column.texts[value]}</bdi></span>
        <span class="track" aria-hidden="true">
          <i class="prior" style={size(isBars, before / largest)} />
          {held !== undefined && <i class="held" style={size(isBars, held / largest)} />}
          <i class="now" style={size(isBars, isImpossible ? 0 : p / largest)} />
        </span>
        <span class="number" aria-hidden="true">
          {isImpossible ? "–" : isBars ? percent(p) : short(p, shown.length > CROWDED)}
          {difference !== null && !isImpossible && Math.abs(difference) >= 0.0005 && isBars
            && <em class={difference > 0 ? "up" : "down"}>{points(difference)}</em>}
        </span>
      </button>
    );
  });
  const caption = hover ?? (mask ? null : largestOf(now));
  const mean = isImpossible ? null : meanText(column, now);
  return (
    <div
      ref={list} role="group" aria-label={`Values of ${column.name}`}
      class={`${isBars ? "bars" : "histogram"}${pinned ? " two" : ""}`} onPointerMove={onPointerMove}
      onPointerUp={() => setTimeout(() => (drag.current = null), 0)}
    >
      {isBars ? bars : <div class="cells">{bars}</div>}
      {!isBars && <Axis column={column} />}
      {!isBars && (
        <p class="caption">
          <span>{caption === null ? saying(column, mask!) : column.texts[caption]}
            {caption !== null && !isImpossible && <b> {percent(now[caption])}</b>}
            {caption !== null && pinned && !isImpossible
              && <em class={now[caption] > pinned[caption] ? "up" : "down"}> {points(now[caption] - pinned[caption])}</em>}
          </span>
          {mean !== null && <span class="mean" title="The mean, with what is known of the values inside each cell" data-mean={meanOf(column, now)}>mean {mean}</span>}
        </p>
      )}
      {column.size > FEW && isBars && (
        <button class="more" onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Show fewer" : `Show all ${column.size} values`}
        </button>
      )}
    </div>
  );
}

const CHARACTERS = 40; // that fit below a histogram

/** Some of the edges between cells, as many as fit. */
function Axis({ column }: { column: Column }): JSX.Element {
  const ends = column.texts.map(endsOf);
  const isCells = ends.slice(1, -1).some(([start, end]) => start !== end);
  const texts = isCells ? ends.slice(1).map(([start]) => start!) : column.texts;
  const longest = Math.max(...texts.map((text) => text.length)) + 2;
  const step = Math.max(1, Math.ceil((texts.length * longest) / CHARACTERS));
  const first = Math.floor(((texts.length - 1) % step) / 2);
  return (
    <div class="axis" aria-hidden="true">
      {texts.map((text, k) => (k - first) % step === 0 && k >= first && (
        <span key={k} style={{ left: `${(100 * (k + (isCells ? 1 : 0.5))) / column.size}%` }}>{text}</span>
      ))}
    </div>
  );
}

const size = (isBars: boolean, share: number): Record<string, string> =>
  ({ [isBars ? "width" : "height"]: `${(100 * share).toFixed(2)}%` });

/** Percent above a bar; between many bars there is room for two digits. */
function short(p: number, isCrowded: boolean): string {
  if (p === 0) return "0";
  if (p < (isCrowded ? 0.005 : 0.0005)) return "·";
  return (100 * p).toFixed(isCrowded || p >= 0.0995 ? 0 : 1);
}

function largestOf(p: Float64Array): number {
  let at = 0;
  p.forEach((x, k) => {
    if (x > p[at]) at = k;
  });
  return at;
}
