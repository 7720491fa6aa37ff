// Questions in columns, answered by passes over slots. All answers are exact.
//
// In:  evidence: for every column that is set, which of its values are possible.
// Out: the probability of the evidence, the posterior of every column, what each set value
//      contributes to a target, what to ask next, and which columns are impossible together.

import type { Column, Model } from "./model.ts";
import { logSumExp, Passes, type Weights } from "./passes.ts";

/** For every column that is set: which of its values are possible. */
export type Evidence = Map<number, Uint8Array>;

export interface Answer {
  logP: number; // of the evidence; -Infinity if it is impossible
  columns: Float64Array[]; // the posterior of every column; zeros if impossible
  coded: Float64Array; // for every column, the share of bits that code one of its values; 1 in most models
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

/** Values of a scattered column whose codes differ in one slot only. */
interface Group {
  values: number[];
  weight: [slot: number, value: number][]; // what is possible in its slots
  open: number; // the place of the slot in which they differ
}

const MAX_SETTINGS = 4096;

export class TooManyRanges extends Error {}

export class Engine {
  readonly model: Model;
  readonly passes: Passes;
  readonly nothing: Answer;

  constructor(model: Model) {
    this.model = model;
    this.passes = new Passes(model);
    this.nothing = this.answer(new Map());
  }

  /** Everything about every column; of scattered columns only `only`, if it is given. */
  answer(evidence: Evidence, only?: number): Answer {
    const { model, passes } = this;
    const columns = model.columns.map((column) => new Float64Array(column.size));
    const components = new Float64Array(model.weight.length);
    const settings = this.settings(evidence);
    const found = settings.map((setting) => {
      const shares = passes.shares(setting.weights);
      const own = model.columns.map((column, i) => {
        if (column.slots.length === 0) return this.ofComponents(shares.component);
        if (column.slots.length === 1) return shares.value.subarray(
          model.slotStart[column.slots[0]], model.slotStart[column.slots[0]] + column.size,
        );
        if (only !== undefined && only !== i) return null;
        if (shares.logTotal === -Infinity) return null;
        const group = setting.groups.get(i);
        if (group) return this.ofGroup(column, group, shares.value);
        const logs = passes.probe(setting.weights, column.slots, column.codes, shares.logTotal);
        return logs.map((log) => Math.exp(log - shares.logTotal));
      });
      return { logTotal: shares.logTotal, own, component: shares.component };
    });
    const logP = logSumExp(found.map((one) => one.logTotal));
    for (const one of found) {
      if (one.logTotal === -Infinity) continue;
      const share = Math.exp(one.logTotal - logP);
      one.own.forEach((values, i) => {
        if (values) for (let k = 0; k < columns[i].length; k++) columns[i][k] += share * values[k];
      });
      for (let c = 0; c < components.length; c++) components[c] += share * one.component[c];
    }
    const coded = Float64Array.from(columns, normalise);
    return { logP, columns, coded, components };
  }

  logProbability(evidence: Evidence): number {
    return logSumExp(this.settings(evidence).map((one) => this.passes.logTotal(one.weights)));
  }

  /** The posterior of a column, whatever is set in it. */
  posteriorOf(column: number, evidence: Evidence): Float64Array {
    return this.answer(without(evidence, column), column).columns[column];
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
      const { logP, columns, coded } = this.answer(new Map(rest).set(target, oneOf(size, t)));
      columns.forEach((own, i) => {
        const share = Math.exp(logP - base.logP) * coded[i];
        own.forEach((p, k) => (joint[i][t * own.length + k] = share * p));
      });
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

  /** Weights that say what the evidence says; several where sets of scattered columns are given. */
  settings(evidence: Evidence): { weights: Weights; groups: Map<number, Group> }[] {
    const { model } = this;
    const value = new Float64Array(model.slotStart[model.slotStart.length - 1]).fill(1);
    const component = model.weight.slice();
    const choices: { column: number; groups: Group[] }[] = [];
    let count = 1;
    for (const [i, mask] of evidence) {
      const column = model.columns[i];
      if (column.slots.length === 0) {
        for (let c = 0; c < component.length; c++) component[c] *= mask[model.componentValue![c]];
      } else if (column.slots.length === 1) {
        const start = model.slotStart[column.slots[0]];
        value.fill(0, start, model.slotStart[column.slots[0] + 1]);
        for (let k = 0; k < column.size; k++) value[start + k] = mask[k];
      } else {
        const groups = groupsOf(column, mask);
        count *= groups.length;
        choices.push({ column: i, groups });
      }
    }
    if (count > MAX_SETTINGS) throw new TooManyRanges();
    let settings = [{ weights: { value, component }, groups: new Map<number, Group>() }];
    for (const { column, groups } of choices) {
      settings = settings.flatMap((one) => groups.map((group) => {
        const own = one.weights.value.slice();
        for (const s of model.columns[column].slots) own.fill(0, model.slotStart[s], model.slotStart[s + 1]);
        for (const [s, k] of group.weight) own[model.slotStart[s] + k] = 1;
        return { weights: { value: own, component }, groups: new Map(one.groups).set(column, group) };
      }));
    }
    return settings;
  }

  private ofComponents(component: Float64Array): Float64Array {
    const { model } = this;
    const found = new Float64Array(model.columns[model.deciding].size);
    component.forEach((share, c) => (found[model.componentValue![c]] += share));
    return found;
  }

  private ofGroup(column: Column, group: Group, value: Float64Array): Float64Array {
    const found = new Float64Array(column.size);
    const start = this.model.slotStart[column.slots[group.open]];
    for (const k of group.values) found[k] = value[start + column.codes[k][group.open]];
    return found;
  }
}

/** The values of a mask, in as few groups as one open slot allows. */
function groupsOf(column: Column, mask: Uint8Array): Group[] {
  let best: Group[] | null = null;
  for (let open = 0; open < column.slots.length; open++) {
    const groups = new Map<string, Group>();
    for (let k = 0; k < column.size; k++) {
      if (!mask[k]) continue;
      const code = column.codes[k];
      const key = code.filter((_, i) => i !== open).join();
      const fixed = column.slots.map((s, i): [number, number] => [s, code[i]]);
      const group = groups.get(key);
      if (group) {
        group.values.push(k);
        group.weight.push(fixed[open]);
      } else groups.set(key, { values: [k], weight: fixed, open });
    }
    if (best === null || groups.size < best.length) best = [...groups.values()];
  }
  return best ?? [];
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

/** Divide by the total, which is returned. */
function normalise(values: Float64Array): number {
  let total = 0;
  for (const value of values) total += value;
  if (total > 0) for (let k = 0; k < values.length; k++) values[k] /= total;
  return total;
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
