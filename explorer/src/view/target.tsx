// The target: its posterior, what each set value contributed, and what to ask next.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Evidence, Information } from "../engine.ts";
import type { Column } from "../model.ts";
import type { TargetAnswer } from "../server.ts";
import { entropy, meanText, percent, points, saying } from "../words.ts";

export interface TargetProps {
  columns: Column[];
  target: number | null;
  prior: Float64Array[];
  evidence: Evidence;
  pinned: Float64Array[] | null;
  about: TargetAnswer | null;
  information: Information[] | null;
  isImpossible: boolean;
  aim: (column: number | null) => void;
  show: (column: number) => void;
}

const NEXT = 8;

export function Target(props: TargetProps): JSX.Element {
  const { columns, target, aim } = props;
  return (
    <aside class="panel" aria-label="Target">
      <label class="pick">
        <span>Ask about</span>
        <select
          value={target === null ? "" : String(target)}
          onChange={(event) => aim(event.currentTarget.value === "" ? null : Number(event.currentTarget.value))}
        >
          <option value="">choose a column…</option>
          {columns.map((column, i) => <option key={i} value={String(i)}>{column.name}</option>)}
        </select>
      </label>
      {target === null
        ? <p class="hint">Choose a column to see its probabilities in full, what each value you set contributes, and what to ask next.</p>
        : <About {...props} target={target} />}
    </aside>
  );
}

function About(props: TargetProps & { target: number }): JSX.Element | null {
  const { columns, target, prior, evidence, about, information, isImpossible } = props;
  const [chosen, setChosen] = useState<{ target: number; value: number } | null>(null);
  if (isImpossible) return <p class="hint">No answer while what you set is impossible.</p>;
  if (about === null || about.posterior.length !== columns[target].size) return <p class="hint">…</p>;
  const column = columns[target];
  const { posterior, contributions } = about;
  const likely = posterior.indexOf(Math.max(...posterior));
  const isYesOrNo = column.kind === "boolean" || column.kind === "bit"; // people ask about the yes
  const focus = chosen?.target === target ? chosen.value : isYesOrNo ? 1 : likely;
  const mean = meanText(column, posterior);
  const own = evidence.get(target);
  const held = own ? null : props.pinned?.[target] ?? null;
  const doubt = entropy(posterior);
  const ordered = [...contributions].sort((a, b) =>
    Math.abs(posterior[focus] - b.without[focus]) - Math.abs(posterior[focus] - a.without[focus]));
  const largest = Math.max(0.01, ...ordered.map((one) => Math.abs(posterior[focus] - one.without[focus])));
  return (
    <>
      <p class="headline" data-target={column.name}>
        <span class="printed"><bdi>{column.name}</bdi>: </span><b><bdi>{column.texts[likely]}</bdi></b> is most likely: {percent(posterior[likely])}
        {mean !== null && <>, mean {mean}</>}
      </p>
      {own && <p class="hint">You set <bdi>{column.name}</bdi> itself ({saying(column, own)}). Here is what the rest says about it.</p>}
      <div class={`large${held ? " two" : ""}`} role="group" aria-label={`Probabilities of ${column.name}`}>
        {column.texts.map((text, k) => (
          <button
            key={k} class={`value${k === focus ? " focus" : ""}`} data-target-value={k} data-p={posterior[k]}
            aria-pressed={k === focus} title="Explain this value"
            aria-label={`${text}: ${percent(posterior[k])}, ${percent(prior[target][k])} with nothing set`}
            onClick={() => setChosen({ target, value: k })}
          >
            <span class="text"><bdi>{text}</bdi></span>
            <span class="track" aria-hidden="true">
              <i class="prior" style={{ width: `${100 * prior[target][k]}%` }} />
              {held && <i class="held" style={{ width: `${100 * held[k]}%` }} />}
              <i class="now" style={{ width: `${100 * posterior[k]}%` }} />
            </span>
            <span class="number" aria-hidden="true">
              {percent(posterior[k])}{held && <em class={posterior[k] >= held[k] ? "up" : "down"}>{points(posterior[k] - held[k])}</em>}
            </span>
          </button>
        ))}
      </div>
      <h4>What each value you set contributes to “<bdi>{column.texts[focus]}</bdi>”</h4>
      {ordered.length === 0 && <p class="hint">Nothing is set yet. Click a bar of any other column.</p>}
      <ul class="contributions">
        {ordered.map(({ column: c, without }) => {
          const difference = posterior[focus] - without[focus];
          return (
            <li key={c} data-contribution={columns[c].name} data-without={without[focus]}>
              <span class="text"><bdi>{columns[c].name}</bdi>: <bdi>{evidence.has(c) ? saying(columns[c], evidence.get(c)!) : ""}</bdi></span>
              <span class="both" aria-hidden="true">
                <i class={difference >= 0 ? "up" : "down"} style={{ width: `${(50 * Math.abs(difference)) / largest}%` }} />
              </span>
              <span class={`number ${difference >= 0 ? "up" : "down"}`}>{points(difference)}</span>
              <small>without it {percent(without[focus])} instead of {percent(posterior[focus])}</small>
            </li>
          );
        })}
      </ul>
      <h4>What to ask next</h4>
      {information === null && <p class="hint">…</p>}
      {information !== null && doubt < 1e-9 && <p class="hint">Nothing: <bdi>{column.name}</bdi> is certain.</p>}
      {information !== null && doubt >= 1e-9 && (
        <>
          <p class="hint">How much of the remaining doubt about <bdi>{column.name}</bdi> an answer would remove, on average.</p>
          <ol class="next">
            {information.slice(0, NEXT).map(({ column: c, nats }) => (
              <li key={c} data-next={columns[c].name} data-nats={nats}>
                <button onClick={() => props.show(c)} title={`Go to ${columns[c].name}; ${nats.toFixed(4)} nats`}>
                  <span class="text"><bdi>{columns[c].name}</bdi></span>
                  <span class="track" aria-hidden="true"><i class="now" style={{ width: `${Math.min(100, (100 * nats) / doubt)}%` }} /></span>
                  <span class="number">{percent(Math.min(1, nats / doubt))}</span>
                </button>
              </li>
            ))}
          </ol>
        </>
      )}
    </>
  );
}
