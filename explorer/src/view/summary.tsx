// The line on top: what is set, how probable that is, the most probable rest, and which components answer.

import type { JSX } from "preact";
import type { Completion } from "../completion.ts";
import type { Answer, Evidence } from "../engine.ts";
import type { Column } from "../model.ts";
import { oneIn, percent, rarity, saying, together } from "../words.ts";

interface ChipsProps {
  columns: Column[];
  evidence: Evidence;
  release?: (column: number) => void;
}

export function Chips({ columns, evidence, release }: ChipsProps): JSX.Element {
  return (
    <span class="chips">
      {[...evidence].map(([c, mask]) => (
        <span class="chip" key={c} data-chip={columns[c].name}>
          <span><bdi>{columns[c].name}</bdi>: <b><bdi>{saying(columns[c], mask)}</bdi></b></span>
          {release && <button onClick={() => release(c)} aria-label={`Release ${columns[c].name}`}>✕</button>}
        </span>
      ))}
    </span>
  );
}

/** How often the set values come together against independent columns, in logs. */
export function logLift(answer: Answer, evidence: Evidence, prior: Float64Array[]): number {
  let sum = answer.logP;
  for (const [c, mask] of evidence) {
    sum -= Math.log(mask.reduce((total, allowed, k) => total + allowed * prior[c][k], 0));
  }
  return sum;
}

interface ProbabilityProps {
  answer: Answer;
  evidence: Evidence;
  prior: Float64Array[];
}

export function Probability({ answer, evidence, prior }: ProbabilityProps): JSX.Element {
  if (evidence.size === 0) {
    return <p class="probability">Nothing is set. The bars show how often each value occurs. Click one to see what follows from it.</p>;
  }
  const lift = evidence.size > 1 ? together(logLift(answer, evidence, prior)) : "";
  return (
    <p class="probability" data-log-p={answer.logP}>
      What you set is <b>{rarity(answer.logP)}</b>: {oneIn(answer.logP)}{lift && <>, {lift}</>}.
    </p>
  );
}

interface CompletionProps {
  columns: Column[];
  evidence: Evidence;
  completion: Completion | null | undefined; // undefined while it is searched for
}

export function MostProbable({ columns, evidence, completion }: CompletionProps): JSX.Element | null {
  if (completion === null) return null;
  if (completion === undefined) return <p class="completion hint">Looking for the most probable row…</p>;
  const rest = completion.values.map((k, c) => [c, k]).filter(([c]) => !evidence.has(c) || isOpen(evidence.get(c)!));
  if (rest.length === 0) return null;
  const gap = Math.exp(completion.logBound - completion.logP);
  const isProved = gap < 1 + 1e-6;
  return (
    <details class="completion" data-log-p={completion.logP} data-proved={isProved}>
      <summary>
        {isProved ? "Most probable row" : "Most probable row found"}:{" "}
        {rest.slice(0, 3).map(([c, k], i) => (
          <span key={c}>{i > 0 && ", "}<bdi>{columns[c].name}</bdi> <b><bdi>{columns[c].texts[k]}</bdi></b></span>
        ))}
        {rest.length > 3 && <>, and {rest.length - 3} more columns</>}
      </summary>
      <p class="hint">
        Of all rows that agree with what you set, {isProved ? "this one is the most probable" : "this is the most probable that was found in half a second"}:{" "}
        {oneIn(completion.logP)}.{" "}
        {!isProved && <>No other can be more than {gap < 100 ? gap.toFixed(2) : gap.toExponential(1)} times as probable. </>}
        It is one whole row. Its values need not be the most probable ones of each column alone.
      </p>
      <dl>
        {rest.map(([c, k]) => (
          <div key={c}><dt><bdi>{columns[c].name}</bdi></dt><dd data-best={columns[c].name}><bdi>{columns[c].texts[k]}</bdi></dd></div>
        ))}
      </dl>
    </details>
  );
}

const isOpen = (mask: Uint8Array): boolean => mask.reduce((a, b) => a + b, 0) > 1;

const SEGMENTS = 30;

/** Which components answer: the largest ones side by side, and all others in one. */
export function Strip({ components }: { components: Float64Array }): JSX.Element | null {
  if (components.length < 2) return null;
  const order = [...components.keys()].sort((a, b) => components[b] - components[a] || a - b);
  let [sum, few] = [0, 0];
  while (few < order.length && sum < 0.95) sum += components[order[few++]];
  const shown = order.slice(0, SEGMENTS);
  const rest = order.slice(SEGMENTS).reduce((total, c) => total + components[c], 0);
  return (
    <div class="strip">
      <span class="hint">
        {few === order.length ? `All ${few.toLocaleString("en")} components` : `${few.toLocaleString("en")} of ${order.length.toLocaleString("en")} components`},
        groups of similar rows, give {few === order.length ? "the answer together" : `${percent(sum)} of the answer`}
      </span>
      <div role="img" aria-label={`Shares of the components: ${shown.slice(0, 5).map((c) => `number ${c + 1} ${percent(components[c])}`).join(", ")}`}>
        {shown.map((c) => (
          <i key={c} data-component={c} data-p={components[c]} style={{ flexGrow: components[c] }} title={`Component ${c + 1}: ${percent(components[c])}`} />
        ))}
        {rest > 0 && <i class="rest" style={{ flexGrow: rest }} title={`All others: ${percent(rest)}`} />}
      </div>
    </div>
  );
}
