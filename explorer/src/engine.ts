// Questions in columns, answered by passes. All answers are exact.
//
// In:  evidence: for every column that is set, which of its values are possible.
// Out: the probability of the evidence, the posterior of every column, what each set value
//      contributes to a target, what to ask next, and which columns are impossible together.

import type { Model } from "./model.ts";
import { Passes } from "./passes.ts";

/** For every column that is set: which of its values are possible. */
export type Evidence = Map<number, Uint8Array>;

export interface Answer {
  logP: number; // of the evidence; -Infinity if it is impossible
  columns: Float64Array[]; // the posterior of every column; zeros if impossible
  components: Float64Array;
}

export interface Contribution {
  column: number;
  without: Float64Array; // the posterior of the target without what is set here
}

export interface Information {
  column: number;
  nats: number;
}

export class Engine {
  readonly model: Model;
  readonly passes: Passes;
  readonly nothing: Answer;

  constructor(model: Model) {
    this.model = model;
    this.passes = new Passes(model);
    this.nothing = this.answer(new Map());
  }

  /** Everything about every column. */
  answer(evidence: Evidence): Answer {
    const { columns, firstValue } = this.model;
    const { logTotal, value, component } = this.passes.shares(this.weights(evidence));
    const posteriors = columns.map((_, i) => value.slice(firstValue[i], firstValue[i + 1]));
    posteriors.forEach(normalise);
    return { logP: logTotal, columns: posteriors, components: component };
  }

  logProbability(evidence: Evidence): number {
    return this.passes.logTotal(this.weights(evidence));
  }

  /** The posterior of a column, whatever is set in it. */
  posteriorOf(column: number, evidence: Evidence): Float64Array {
    return this.answer(without(evidence, column)).columns[column];
  }

  /** What the target would be without each of the set values. */
  *contributions(target: number, evidence: Evidence): Generator<Contribution> {
    const rest = without(evidence, target);
    for (const column of rest.keys()) {
      yield { column, without: this.posteriorOf(target, without(rest, column)) };
    }
  }

  /** How much every other column tells of the target, given the evidence, in nats. */
  *information(target: number, evidence: Evidence): Generator<null, Information[]> {
    const rest = without(evidence, target);
    const base = this.answer(rest);
    const prior = base.columns[target];
    const size = this.model.columns[target].size;
    const joint = this.model.columns.map((column) => new Float64Array(size * column.size));
    for (let t = 0; t < size; t++) {
      if (!(prior[t] > 0)) continue;
      const { logP, columns } = this.answer(new Map(rest).set(target, oneOf(size, t)));
      const share = Math.exp(logP - base.logP);
      columns.forEach((own, i) => own.forEach((p, k) => (joint[i][t * own.length + k] = share * p)));
      yield null;
    }
    const found: Information[] = [];
    this.model.columns.forEach((column, i) => {
      const isKnown = base.columns[i].some((p) => p > 1 - 1e-12);
      if (i === target || isKnown || isSingle(rest.get(i))) return;
      found.push({ column: i, nats: mutualInformation(joint[i], size, column.size) });
    });
    return found.sort((a, b) => b.nats - a.nats || a.column - b.column);
  }

  /** A smallest set of columns that are impossible together: without any one of them it is possible. */
  clash(evidence: Evidence): number[] {
    let rest = evidence;
    for (const column of [...evidence.keys()]) {
      const fewer = without(rest, column);
      if (this.logProbability(fewer) === -Infinity) rest = fewer;
    }
    return [...rest.keys()];
  }

  /** A weight for every value of every column: 1 where it is possible, 0 where it is not. */
  weights(evidence: Evidence): Float64Array {
    const { firstValue, columns } = this.model;
    const weights = new Float64Array(firstValue[columns.length]).fill(1);
    for (const [i, mask] of evidence) weights.set(mask, firstValue[i]);
    return weights;
  }
}

export function without(evidence: Evidence, column: number): Evidence {
  const rest = new Map(evidence);
  rest.delete(column);
  return rest;
}

export function oneOf(size: number, value: number): Uint8Array {
  const mask = new Uint8Array(size);
  mask[value] = 1;
  return mask;
}

export function isSingle(mask: Uint8Array | undefined): boolean {
  return mask !== undefined && mask.reduce((a, b) => a + b, 0) === 1;
}

/** Divide by the total. */
function normalise(values: Float64Array): void {
  let total = 0;
  for (const value of values) total += value;
  if (total > 0) for (let k = 0; k < values.length; k++) values[k] /= total;
}

/** Of a table of joint probabilities, which need not add up to one. */
export function mutualInformation(joint: Float64Array, rows: number, columns: number): number {
  normalise(joint);
  const row = new Float64Array(rows);
  const column = new Float64Array(columns);
  joint.forEach((p, i) => {
    row[Math.floor(i / columns)] += p;
    column[i % columns] += p;
  });
  let nats = 0;
  joint.forEach((p, i) => {
    if (p > 0) nats += p * Math.log(p / (row[Math.floor(i / columns)] * column[i % columns]));
  });
  return Math.max(nats, 0);
}
