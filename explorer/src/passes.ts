// One pass up and one down, for all components.
//
// In:  a model, and a weight for every value of every column: 1 where it is possible, 0 where it is not.
// Out: the probability of all that, and how much of it every value and every component has.
//
// Values are plain numbers, which is four times as fast as logarithms. Where the whole is so
// improbable that digits could be lost, everything is done again in logarithms.

import type { Model } from "./model.ts";

const SMALLEST = 1e-250; // below, terms that matter could be lost: numbers end at 1e-308

/** What two passes leave. */
export interface Shares {
  logTotal: number; // natural log of the probability
  value: Float64Array; // per value of every column, given the weights
  component: Float64Array; // per component, given the weights
}

export class Passes {
  readonly model: Model;
  private readonly values: Float64Array; // [block][node][lane]
  private readonly change: Float64Array;

  constructor(model: Model) {
    this.model = model;
    this.values = new Float64Array(model.blocks * model.nodes * model.lanes);
    this.change = new Float64Array(model.nodes * model.lanes);
  }

  /** The probability of the weights; -Infinity if they are impossible. */
  logTotal(weights: Float64Array): number {
    const { model, values } = this;
    for (let block = 0; block < model.blocks; block++) up(model, block, weights, values);
    let total = 0;
    for (let c = 0; c < model.weight.length; c++) total += model.weight[c] * values[rootOf(model, c)];
    return total >= SMALLEST ? Math.log(total) : this.inLogs(weights, false).logTotal;
  }

  /** The probability, and the share of every value and component. */
  shares(weights: Float64Array): Shares {
    const { model, values } = this;
    const value = new Float64Array(weights.length);
    const component = new Float64Array(model.weight.length);
    let total = 0;
    for (let block = 0; block < model.blocks; block++) {
      up(model, block, weights, values);
      total += down(model, block, weights, values, this.change, value, component);
    }
    if (!(total >= SMALLEST)) return this.inLogs(weights, true);
    for (let g = 0; g < value.length; g++) value[g] /= total;
    for (let c = 0; c < component.length; c++) component[c] /= total;
    return { logTotal: Math.log(total), value, component };
  }

  private inLogs(weights: Float64Array, withShares: boolean): Shares {
    const { model } = this;
    const logValues = upInLogs(model, weights);
    const logComponent = model.weight.map((own, c) => Math.log(own) + logValues[rootOf(model, c)]);
    const logTotal = logSumExp(logComponent);
    const value = new Float64Array(weights.length);
    const component = new Float64Array(model.weight.length);
    if (withShares && logTotal > -Infinity) {
      for (let c = 0; c < component.length; c++) component[c] = Math.exp(logComponent[c] - logTotal);
      downInLogs(model, weights, logValues, component, value);
    }
    return { logTotal, value, component };
  }
}

/** Where the value of a component's root is. */
function rootOf({ lanes, nodes }: Model, component: number): number {
  const block = Math.floor(component / lanes);
  return ((block + 1) * nodes - 1) * lanes + (component - block * lanes);
}

export function logSumExp(logs: Float64Array | number[]): number {
  let largest = -Infinity;
  for (const log of logs) if (log > largest) largest = log;
  if (largest === -Infinity) return largest;
  let total = 0;
  for (const log of logs) total += Math.exp(log - largest);
  return largest + Math.log(total);
}

/** Fill the values of all nodes of a block. */
function up(model: Model, block: number, weights: Float64Array, values: Float64Array): void {
  if (model.lanes === 1) return upSingle(model, weights, values);
  const { lanes, leaves, nodes, start, left, right, theta } = model;
  const firstValue = block * nodes * lanes;
  const firstTheta = block * model.entries * lanes;
  values.fill(0, firstValue, firstValue + nodes * lanes);
  for (let n = 0; n < leaves; n++) {
    const at = firstValue + n * lanes;
    for (let e = start[n], end = start[n + 1]; e < end; e++) {
      const t = firstTheta + e * lanes;
      const w = weights[left[e]];
      if (w !== 0) for (let l = 0; l < lanes; l++) values[at + l] += theta[t + l] * w;
    }
  }
  for (let n = leaves; n < nodes; n++) {
    const at = firstValue + n * lanes;
    for (let e = start[n], end = start[n + 1]; e < end; e++) {
      const t = firstTheta + e * lanes;
      const a = firstValue + left[e] * lanes;
      const b = firstValue + right[e] * lanes;
      for (let l = 0; l < lanes; l++) values[at + l] += theta[t + l] * values[a + l] * values[b + l];
    }
  }
}

function upSingle({ leaves, nodes, start, left, right, theta }: Model, weights: Float64Array, values: Float64Array): void {
  for (let n = 0; n < nodes; n++) {
    let sum = 0;
    if (n < leaves) for (let e = start[n]; e < start[n + 1]; e++) sum += theta[e] * weights[left[e]];
    else for (let e = start[n]; e < start[n + 1]; e++) sum += theta[e] * values[left[e]] * values[right[e]];
    values[n] = sum;
  }
}

/**
 * Add the shares of a block, before they are divided by the total; returns what they add up to.
 * What comes down is how much the total changes with the value of each node.
 */
function down(
  model: Model, block: number, weights: Float64Array, values: Float64Array, change: Float64Array,
  share: Float64Array, component: Float64Array,
): number {
  if (model.lanes === 1) return downSingle(model, weights, values, change, share, component);
  const { lanes, leaves, nodes, start, left, right, theta } = model;
  const firstValue = block * nodes * lanes;
  const firstTheta = block * model.entries * lanes;
  const firstComponent = block * lanes;
  const inUse = Math.min(lanes, model.weight.length - firstComponent);
  change.fill(0);
  let total = 0;
  const root = (nodes - 1) * lanes;
  for (let l = 0; l < inUse; l++) {
    const own = model.weight[firstComponent + l];
    const p = own * values[firstValue + root + l];
    component[firstComponent + l] += p;
    change[root + l] = p > 0 ? own : 0;
    total += p;
  }
  if (total === 0) return 0;
  for (let n = nodes - 1; n >= leaves; n--) {
    const at = n * lanes;
    for (let e = start[n], end = start[n + 1]; e < end; e++) {
      const t = firstTheta + e * lanes;
      const a = left[e] * lanes;
      const b = right[e] * lanes;
      for (let l = 0; l < lanes; l++) {
        const d = change[at + l] * theta[t + l];
        change[a + l] += d * values[firstValue + b + l];
        change[b + l] += d * values[firstValue + a + l];
      }
    }
  }
  for (let n = 0; n < leaves; n++) {
    const at = n * lanes;
    for (let e = start[n], end = start[n + 1]; e < end; e++) {
      const t = firstTheta + e * lanes;
      const w = weights[left[e]];
      if (w === 0) continue;
      let sum = 0;
      for (let l = 0; l < lanes; l++) sum += change[at + l] * theta[t + l];
      share[left[e]] += sum * w;
    }
  }
  return total;
}

function downSingle(
  { leaves, nodes, start, left, right, theta, weight }: Model, weights: Float64Array, values: Float64Array,
  change: Float64Array, share: Float64Array, component: Float64Array,
): number {
  const total = weight[0] * values[nodes - 1];
  component[0] += total;
  if (total === 0) return 0;
  change.fill(0);
  change[nodes - 1] = weight[0];
  for (let n = nodes - 1; n >= 0; n--) {
    const own = change[n];
    if (own === 0) continue;
    for (let e = start[n], end = start[n + 1]; e < end; e++) {
      if (n < leaves) {
        share[left[e]] += own * theta[e] * weights[left[e]];
        continue;
      }
      const d = own * theta[e];
      change[left[e]] += d * values[right[e]];
      change[right[e]] += d * values[left[e]];
    }
  }
  return total;
}

function upInLogs(model: Model, weights: Float64Array): Float64Array {
  const { lanes, leaves, nodes, start, left, right, theta } = model;
  const logValue = new Float64Array(model.blocks * nodes * lanes);
  for (let block = 0; block < model.blocks; block++) {
    const firstValue = block * nodes * lanes;
    const firstTheta = block * model.entries * lanes;
    for (let n = 0; n < nodes; n++) {
      for (let l = 0; l < lanes; l++) {
        let largest = n < leaves ? 0 : -Infinity;
        let sum = 0;
        for (let e = start[n]; e < start[n + 1]; e++) {
          const t = theta[firstTheta + e * lanes + l];
          if (t === 0) continue;
          if (n < leaves) {
            sum += t * weights[left[e]];
            continue;
          }
          const log = Math.log(t) + logValue[firstValue + left[e] * lanes + l] + logValue[firstValue + right[e] * lanes + l];
          if (log === -Infinity) continue;
          if (log > largest) {
            sum = largest === -Infinity ? 1 : sum * Math.exp(largest - log) + 1;
            largest = log;
          } else sum += Math.exp(log - largest);
        }
        logValue[firstValue + n * lanes + l] = sum > 0 ? largest + Math.log(sum) : -Infinity;
      }
    }
  }
  return logValue;
}

function downInLogs(
  model: Model, weights: Float64Array, logValue: Float64Array, component: Float64Array, share: Float64Array,
): void {
  const { lanes, leaves, nodes, start, left, right, theta } = model;
  const flow = new Float64Array(nodes);
  for (let c = 0; c < model.weight.length; c++) {
    if (component[c] === 0) continue;
    const block = Math.floor(c / lanes);
    const l = c - block * lanes;
    const firstValue = block * nodes * lanes;
    const firstTheta = block * model.entries * lanes;
    flow.fill(0);
    flow[nodes - 1] = component[c];
    for (let n = nodes - 1; n >= 0; n--) {
      if (flow[n] === 0) continue;
      const own = logValue[firstValue + n * lanes + l];
      for (let e = start[n]; e < start[n + 1]; e++) {
        const t = theta[firstTheta + e * lanes + l];
        if (t === 0) continue;
        if (n < leaves) {
          share[left[e]] += (flow[n] * t * weights[left[e]]) / Math.exp(own);
          continue;
        }
        const log = Math.log(t) + logValue[firstValue + left[e] * lanes + l] + logValue[firstValue + right[e] * lanes + l];
        const f = log === -Infinity ? 0 : flow[n] * Math.exp(log - own);
        flow[left[e]] += f;
        flow[right[e]] += f;
      }
    }
  }
}
