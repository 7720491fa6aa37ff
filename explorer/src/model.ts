// The model as the page holds it: columns as people see them, and below them a circuit over slots.
//
// In:  the JSON that Python wrote (README.md describes it).
// Out: `Model`, whose parameters are normalised in double precision.

export interface ColumnData {
  name: string;
  kind: "bit" | "boolean" | "category" | "ordinal" | "number" | "date";
  labels: string[];
  texts?: string[];
  numbers?: number[];
  isDay?: boolean;
  isDuration?: boolean; // numbers are microseconds
  slots: number[];
  codes?: number[][];
}

export interface PartData {
  components: number;
  isDeterministic: boolean;
  nodeSlot: string;
  nodeEntries: string;
  left: string;
  right: string;
  logTheta: string;
}

export interface PageData {
  format: number;
  version: string;
  title: string;
  model: { kind: "circuit" | "mixture"; components: number; variables: number; edges: number; parameters: number };
  columns: ColumnData[];
  slots: number[]; // values of every slot, with one for bits that code no value
  patterns: number[]; // those that code one
  logWeight: string;
  parts: PartData[];
  componentValue: string | null;
  target: number | null;
}

export interface Column {
  name: string;
  kind: ColumnData["kind"];
  labels: string[]; // as Python calls the values
  texts: string[]; // as the page does
  numbers: number[] | null; // what stands for each value in a mean
  isDay: boolean;
  isDuration: boolean;
  isOrdered: boolean;
  size: number;
  slots: number[]; // none where the component decides
  codes: number[][]; // [value][place in slots], the value of the slot
}

/** Components on one structure, `lanes` of them side by side. Children come before parents. */
export interface Part {
  first: number; // its first component
  count: number;
  lanes: number;
  blocks: number;
  nodes: number;
  entries: number;
  isDeterministic: boolean;
  slotOf: Int32Array; // of a leaf, -1 for a sum
  start: Int32Array; // entries of n are start[n] to start[n + 1]
  left: Int32Array; // left child; of a leaf, the place of the value among those of all slots
  right: Int32Array; // right child, -1 for none
  theta: Float64Array; // [block][entry][lane]
  logTheta: Float32Array; // the same
}

export interface Model {
  columns: Column[];
  parts: Part[];
  weight: Float64Array; // of every component
  componentValue: Int32Array | null; // the value of the column that has no slots
  slotStart: Int32Array; // where the values of each slot start among those of all
  slotPatterns: number[];
  deciding: number; // the column that has no slots, or -1
}

const LANES = 64; // a block of values fits into the second level of the cache

export function readModel(data: PageData): Model {
  const slotStart = new Int32Array(data.slots.length + 1);
  data.slots.forEach((size, s) => (slotStart[s + 1] = slotStart[s] + size));
  const columns = readColumns(data);
  const parts: Part[] = [];
  let first = 0;
  for (const part of data.parts) {
    parts.push(readPart(part, first, slotStart));
    first += part.components;
  }
  const logWeight = floats(data.logWeight);
  const weight = Float64Array.from(logWeight, Math.exp);
  const total = weight.reduce((a, b) => a + b, 0);
  for (let c = 0; c < weight.length; c++) weight[c] /= total;
  return {
    columns,
    parts,
    weight,
    componentValue: data.componentValue === null ? null : ints(data.componentValue),
    slotStart,
    slotPatterns: data.patterns,
    deciding: columns.findIndex((column) => column.slots.length === 0),
  };
}

export function readColumns(data: PageData): Column[] {
  return data.columns.map(readColumn);
}

function readColumn(data: ColumnData): Column {
  const size = data.labels.length;
  return {
    name: data.name,
    kind: data.kind,
    labels: data.labels,
    texts: data.texts ?? data.labels,
    numbers: data.numbers ?? null,
    isDay: data.isDay ?? false,
    isDuration: data.isDuration ?? false,
    isOrdered: data.kind === "number" || data.kind === "date" || data.kind === "ordinal",
    size,
    slots: data.slots,
    codes: data.codes ?? data.labels.map((_, value) => [value]),
  };
}

function readPart(data: PartData, first: number, slotStart: Int32Array): Part {
  const slotOf = ints(data.nodeSlot);
  const start = ints(data.nodeEntries);
  const left = ints(data.left);
  const right = ints(data.right);
  const raw = floats(data.logTheta); // [entry][component]
  const count = data.components;
  const nodes = slotOf.length;
  const entries = left.length;
  const blocks = Math.ceil(count / LANES);
  const lanes = Math.ceil(count / blocks);
  for (let n = 0; n < nodes; n++) {
    if (slotOf[n] >= 0) for (let e = start[n]; e < start[n + 1]; e++) left[e] += slotStart[slotOf[n]];
  }
  const theta = new Float64Array(blocks * entries * lanes);
  const logTheta = new Float32Array(blocks * entries * lanes).fill(-Infinity);
  const total = new Float64Array(count);
  for (let n = 0; n < nodes; n++) {
    total.fill(0);
    for (let e = start[n]; e < start[n + 1]; e++) {
      for (let c = 0; c < count; c++) total[c] += Math.exp(raw[e * count + c]);
    }
    for (let e = start[n]; e < start[n + 1]; e++) {
      for (let c = 0; c < count; c++) {
        const block = Math.floor(c / lanes);
        const at = (block * entries + e) * lanes + (c - block * lanes);
        logTheta[at] = raw[e * count + c];
        if (total[c] > 0) theta[at] = Math.exp(raw[e * count + c]) / total[c];
      }
    }
  }
  return {
    first, count, lanes, blocks, nodes, entries,
    isDeterministic: data.isDeterministic,
    slotOf, start, left, right, theta, logTheta,
  };
}

export function bytes(base64: string): ArrayBuffer {
  const text = atob(base64);
  const out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out.buffer;
}

const floats = (base64: string) => new Float32Array(bytes(base64));
const ints = (base64: string) => new Int32Array(bytes(base64));
